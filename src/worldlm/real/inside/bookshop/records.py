# mypy: ignore-errors
"""What the bookshop holds at the start."""

from datetime import date, timedelta

from bookshop.models import Author, Book, Customer, Genre, Line, Order

FIRST = (
    "Ada",
    "Bruno",
    "Clara",
    "Dario",
    "Edda",
    "Felix",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karin",
    "Leo",
    "Mira",
    "Nils",
    "Olga",
    "Pavel",
    "Rosa",
    "Sven",
    "Thea",
    "Viktor",
)
LAST = (
    "Abel",
    "Berg",
    "Conti",
    "Dahl",
    "Eriksen",
    "Ferro",
    "Grande",
    "Holm",
    "Ivanov",
    "Jensen",
    "Kovac",
    "Lund",
    "Moreau",
    "Novak",
    "Okafor",
    "Park",
    "Quist",
    "Rossi",
)
COUNTRIES = (
    "Denmark",
    "France",
    "Ghana",
    "Italy",
    "Japan",
    "Norway",
    "Poland",
    "Spain",
)
CITIES = (
    "Aalborg",
    "Bergen",
    "Cadiz",
    "Dijon",
    "Gdansk",
    "Lucca",
    "Malmo",
    "Turku",
)
GENRES = ("Biography", "Children", "Cooking", "Crime", "History", "Poetry", "Science", "Travel")
ADJECTIVES = (
    "Blue",
    "Broken",
    "Distant",
    "Hidden",
    "Last",
    "Little",
    "Northern",
    "Quiet",
    "Second",
    "Silver",
    "Slow",
    "Wild",
)
NOUNS = (
    "Atlas",
    "Bridge",
    "Clock",
    "Garden",
    "Harbour",
    "Island",
    "Letter",
    "Mirror",
    "Orchard",
    "Road",
    "Season",
    "Winter",
)


def isbn(random):
    """A number that checks."""
    digits = "978" + "".join(str(random.randrange(10)) for _ in range(9))
    return digits + str(-sum(int(d) * (1 + 2 * (n % 2)) for n, d in enumerate(digits)) % 10)


def day(random, first, last):
    """A day of these years."""
    return date(first, 1, 1) + timedelta(days=random.randrange(365 * (last - first + 1)))


def fill(random, now):
    """Write the records."""
    genres = Genre.objects.bulk_create(Genre(name=name, slug=name.lower()) for name in random.sample(GENRES, 6))
    names = random.sample([f"{first} {last}" for first in FIRST for last in LAST], 62)
    authors = Author.objects.bulk_create(
        Author(name=name, country=random.choice(COUNTRIES), born=day(random, 1920, 1995)) for name in names[:22]
    )
    titles = random.sample([f"The {a} {n}" for a in ADJECTIVES for n in NOUNS], 36)
    books = Book.objects.bulk_create(
        Book(
            title=title,
            author=random.choice(authors),
            isbn=isbn(random),
            binding=random.choice(("paperback", "hardcover")),
            price=random.randrange(700, 4500) / 100,
            stock=random.randrange(60),
            published=day(random, 1990, 2025),
            for_sale=random.random() < 0.85,
        )
        for title in titles
    )
    for book in books:
        book.genres.set(random.sample(genres, random.randrange(1, 3)))
    customers = Customer.objects.bulk_create(
        Customer(
            name=name,
            email=f"{name.lower().replace(' ', '.')}@example.com",
            city=random.choice(CITIES),
            member=random.random() < 0.4,
            joined=day(random, 2019, 2025),
        )
        for name in names[22:62]
    )
    orders = []
    for number in range(48):
        placed = now - timedelta(days=2 * number, minutes=random.randrange(1440))
        status = random.choice(("new", "paid", "shipped", "shipped", "cancelled"))
        shipped = placed.date() + timedelta(days=random.randrange(1, 5)) if status == "shipped" else None
        orders.append(Order(customer=random.choice(customers), status=status, placed=placed, shipped=shipped))
    lines = []
    for order in Order.objects.bulk_create(orders):
        lines += [
            Line(order=order, book=book, quantity=random.randrange(1, 4), price=book.price)
            for book in random.sample(books, random.randrange(1, 4))
        ]
    Line.objects.bulk_create(lines)
