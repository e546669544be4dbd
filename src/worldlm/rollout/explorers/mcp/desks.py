"""Behaviours at the desks of a shop and of an airline: what is done next depends on the record that was read."""

from typing import TYPE_CHECKING, Any

from worldlm.core.types import Observation
from worldlm.rollout.explorers.explorer import Behaviour

if TYPE_CHECKING:
    from worldlm.rollout.explorers.mcp import Agent


def record(observation: Observation | None) -> dict[str, Any]:
    """The record that a result holds; empty where it holds none."""
    found: Any = observation.structured if observation is not None else None
    if isinstance(found, dict):
        found = found.get("parsed_content", found)
    return found if isinstance(found, dict) else {}


def retail(agent: "Agent") -> Behaviour:
    """A customer is found, an order read, and what its status permits is done to it, and something that it forbids."""
    random = agent.random
    if random.random() < 0.5:
        email = agent.fill("{any_email}", {})
        yield from agent.call("find_user_id_by_email", {"email": email or "nobody@example.com"})
        user_id = agent.fill("{last_parsed_content}", {})
    else:
        first, last, postcode = str(agent.fill("{any_customer}", {}) or "Ann Lee 12345").split(" ")
        arguments = {"first_name": first, "last_name": last, "zip": postcode}
        yield from agent.call("find_user_id_by_name_zip", arguments)
        user_id = agent.fill("{last_parsed_content}", {})
    user = record((yield from agent.call("get_user_details", {"user_id": str(user_id)})))
    payments = list(user.get("payment_methods", {})) or ["gift_card_0000000"]
    for order_id in user.get("orders", [])[: random.randint(1, 3)]:
        order = record((yield from agent.call("get_order_details", {"order_id": order_id})))
        items = order.get("items") or []
        if not items:
            continue
        item = random.choice(items)
        product = record((yield from agent.call("get_product_details", {"product_id": item["product_id"]})))
        variants = [key for key in product.get("variants", {}) if key != item["item_id"]] or [item["item_id"]]
        payment = random.choice(payments)
        swap = {
            "order_id": order_id,
            "item_ids": [item["item_id"]],
            "new_item_ids": [random.choice(variants)],
            "payment_method_id": payment,
        }
        address = {name: agent.fill("{" + source + "}", {}) for name, source in _ADDRESS.items()}
        forms: dict[str, dict[str, Any]] = {
            "cancel_pending_order": {"order_id": order_id, "reason": agent.fill("{reason}", {})},
            "modify_pending_order_items": swap,
            "modify_pending_order_payment": {"order_id": order_id, "payment_method_id": payment},
            "modify_pending_order_address": {"order_id": order_id, **address},
            "return_delivered_order_items": {
                "order_id": order_id,
                "item_ids": [item["item_id"]],
                "payment_method_id": payment,
            },
            "exchange_delivered_order_items": swap,
        }
        fitting = [name for name in forms if str(order.get("status", "pending")).split(" ")[0] in name]
        name = random.choice(fitting if fitting and random.random() < 0.8 else list(forms))
        yield from agent.call(name, forms[name])
        yield from agent.call("get_order_details", {"order_id": order_id})
        if random.random() < 0.4:  # once more: what was done forbids it now
            yield from agent.call(name, forms[name])
    if user and random.random() < 0.4:
        address = {name: agent.fill("{" + source + "}", {}) for name, source in _ADDRESS.items()}
        yield from agent.call("modify_user_address", {"user_id": user["user_id"], **address})
        yield from agent.call("get_user_details", {"user_id": user["user_id"]})


_ADDRESS = {
    "address1": "street",
    "address2": "suite",
    "city": "town",
    "state": "state",
    "country": "country",
    "zip": "zip",
}


def airline(agent: "Agent") -> Behaviour:
    """A passenger's reservations are read and changed, or a new one is booked from a search."""
    random = agent.random
    user = record((yield from agent.call("get_user_details", {"user_id": agent.fill("{any_userid}", {})})))
    payments = list(user.get("payment_methods", {})) or ["credit_card_0000000"]
    passengers = [
        {**user.get("name", {"first_name": "Ann", "last_name": "Lee"}), "dob": user.get("dob", "1990-01-01")},
        *user.get("saved_passengers", []),
    ]
    for reservation_id in user.get("reservations", [])[: random.randint(1, 2)]:
        booked = record((yield from agent.call("get_reservation_details", {"reservation_id": reservation_id})))
        flights = [{key: leg[key] for key in ("flight_number", "date")} for leg in booked.get("flights", [])]
        if not flights:
            continue
        payment = random.choice(payments)
        count = len(booked.get("passengers", [])) or 1
        forms: dict[str, dict[str, Any]] = {
            "cancel_reservation": {"reservation_id": reservation_id},
            "update_reservation_baggages": {
                "reservation_id": reservation_id,
                "total_baggages": booked.get("total_baggages", 0) + random.randint(1, 2),
                "nonfree_baggages": random.randint(0, 2),
                "payment_id": payment,
            },
            "update_reservation_passengers": {
                "reservation_id": reservation_id,
                "passengers": (passengers * count)[: count if random.random() < 0.8 else count + 1],
            },
            "update_reservation_flights": {
                "reservation_id": reservation_id,
                "cabin": agent.fill("{cabin}", {}),
                "flights": flights,
                "payment_id": payment,
            },
        }
        name = random.choice(list(forms))
        yield from agent.call("get_flight_status", flights[0])
        yield from agent.call(name, forms[name])
        yield from agent.call("get_reservation_details", {"reservation_id": reservation_id})
    if user and random.random() < 0.6:
        yield from _book(agent, user, payments, passengers)


def _book(agent: "Agent", user: dict[str, Any], payments: list[str], passengers: list[dict[str, Any]]) -> Behaviour:
    random = agent.random
    drawn: dict[str, Any] = {}
    trip = {name: agent.fill("{" + source + "}", drawn) for name, source in _TRIP.items()}
    found = yield from agent.call("search_direct_flight", trip)
    structured: Any = found.structured if found is not None else None
    offers = structured.get("parsed_content") if isinstance(structured, dict) else None
    if not isinstance(offers, list) or not offers:
        yield from agent.call("search_onestop_flight", trip)
        return
    cabin = agent.fill("{cabin}", {})
    offer = random.choice(offers)
    price = offer.get("prices", {}).get(cabin, 100)
    booking = {
        "user_id": user["user_id"],
        "origin": trip["origin"],
        "destination": trip["destination"],
        "flight_type": "one_way",
        "cabin": cabin,
        "flights": [{"flight_number": offer.get("flight_number"), "date": trip["date"]}],
        "passengers": passengers[:1],
        "payment_methods": [
            {"payment_id": random.choice(payments), "amount": price if random.random() < 0.8 else price - 5}
        ],
        "total_baggages": random.randint(0, 2),
        "nonfree_baggages": 0,
        "insurance": "no",
    }
    made = record((yield from agent.call("book_reservation", booking)))
    reservation = str(made.get("reservation_id", "HATHAT"))
    yield from agent.call("get_reservation_details", {"reservation_id": reservation})
    if random.random() < 0.5:
        yield from agent.call("cancel_reservation", {"reservation_id": reservation})
        yield from agent.call("get_user_details", {"user_id": user["user_id"]})


_TRIP = {"origin": "airport", "destination": "airport2", "date": "day"}

DESKS = {"exchange_delivered_order_items": retail, "book_reservation": airline}
"""A tool that only this kind of server has, and the behaviour at it."""
