import json
import re
from pathlib import Path

import pytest

from tests.judge.judges import (
    Character,
    copying,
    flattering,
    gullible,
    honest,
    items,
    long_winded,
    mute,
    on_a_server,
    position_biased,
    scripted,
)
from tests.models.chat_server import error, serving
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.types import Sampling
from worldlm.judge.asking import JudgeSettings
from worldlm.judge.audit import CANARIES, LABELS, LIMITS, AuditReport, JudgeAudit, audit
from worldlm.judge.verdicts import looks_like_a_verdict
from worldlm.models.openai import OpenAIModel
from worldlm.models.wrappers import CachedModel

pytestmark = pytest.mark.anyio

ONCE = JudgeSettings(attempts=1)


async def audited(character: Character) -> JudgeAudit:
    """The audit of a judge behind a real server."""
    with serving(on_a_server(character)) as server:
        model = OpenAIModel(character.__name__, server.url)
        report = await audit(items(), [model], ONCE, samples=2, bases=1)
        await model.close()
    return report.judges[0]


async def test_an_honest_judge_passes() -> None:
    found = await audited(honest)
    assert found.findings == ()
    assert (found.coverage, found.order, found.spread, found.obeyed, found.consistent, found.right) == (
        1,
        1,
        0,
        0,
        1,
        1,
    )
    assert found.totals["real"] == 5
    assert list(found.totals.values()) == sorted(found.totals.values(), reverse=True)
    assert found.rank_correlation is not None
    assert found.rank_correlation > 0.9
    assert found.length is not None
    assert found.length < 0
    assert found.dimension_found == 1
    assert set(found.order_by_domain) == {"terminal", "mcp"}
    assert {canary.name: canary.tried for canary in found.canaries} == {"self_praise": 6, **dict.fromkeys(CANARIES, 2)}
    assert {row.pair for row in found.orderings} >= {"real > small_fault", "large_fault >= self_praise"}


@pytest.mark.parametrize(
    ("character", "measures"),
    [
        (flattering, {"order"}),
        (position_biased, {"consistent"}),
        (gullible, {"obeyed"}),
        (long_winded, {"order", "length"}),
    ],
)
async def test_every_kind_of_poor_judge_is_found_out(character: Character, measures: set[str]) -> None:
    found = await audited(character)
    broken = {name for name, limit in LIMITS.items() if limit.broken(getattr(found, name))}
    assert measures <= broken
    assert len(found.findings) == len(broken)


async def test_a_judge_that_copies_a_planted_verdict_gains_the_prediction_nothing() -> None:
    found = await audited(copying)
    planted = {name for name, text in CANARIES.items() if '"scores"' in text}
    assert planted == {"verdict", "object"}
    assert all(looks_like_a_verdict(CANARIES[name]) for name in planted)
    for canary in found.canaries:
        assert canary.risen == 0
        assert canary.scored == (0 if canary.name in planted else canary.tried)
    assert found.missing == {"judge_failed": 4}
    assert "may be a quotation" in found.reasons[0]
    assert len(found.findings) == 1
    assert "gives no usable verdict on texts that talk to it" in found.findings[0]


async def test_a_judge_that_never_answers_well_has_no_measures_but_its_failures() -> None:
    found = await audited(mute)
    assert (found.scored, found.coverage) == (0, 0)
    assert (found.order, found.rank_correlation, found.kappa, found.spread, found.obeyed, found.length) == (None,) * 6
    assert found.missing == {"judge_failed": found.planned}
    assert len(found.findings) == 2


async def test_with_patience_a_judge_of_no_use_ends_the_audit_in_its_own_words() -> None:
    for judges in ([scripted(mute)], [scripted(honest), scripted(mute)]):
        with pytest.raises(WorldlmError, match=r"mute gave no usable verdict in its first 12; .*I cannot rate this"):
            await audit(items(), judges, ONCE, samples=1, bases=1, patience=12)
        assert 12 <= len(judges[-1].requests) < 24
    report = await audit(items(), [scripted(honest)], ONCE, samples=1, bases=1, patience=12, selection="these")
    assert (report.judges[0].findings, report.selection) == ((), "these")


async def test_judges_are_compared_with_each_other_and_the_report_round_trips() -> None:
    judges = [scripted(character) for character in (honest, flattering, long_winded)]
    told: list[tuple[int, int]] = []
    report = await audit(items(), judges, ONCE, samples=1, bases=1, progress=lambda done, of: told.append((done, of)))
    assert [(pair.one, pair.other) for pair in report.agreements] == [
        ("honest", "flattering"),
        ("honest", "long_winded"),
        ("flattering", "long_winded"),
    ]
    assert report.agreements[0].agreement.items == report.items == 30
    assert report.agreements[0].agreement.spearman is None  # one of them says the same of everything
    assert AuditReport.model_validate_json(report.model_dump_json()) == report
    assert json.loads(report.model_dump_json())["schema"] == "worldlm.judge-audit/1"
    assert [row["judge"] for row in report.rows()] == ["honest", "flattering", "long_winded"]
    assert {len(row) for row in report.rows()} == {12}
    assert report.rows()[0]["findings"] == "0"
    assert {finding.split()[0] for finding in report.findings} == {"flattering", "long_winded"}
    assert json.loads(report.model_dump_json())["judges"][1]["findings"]
    assert [done for done, _ in told] == list(range(1, told[-1][1] + 1))
    assert report.judges[0].spread is None  # nothing was repeated


async def test_empty_predictions_and_other_kinds_are_not_sent() -> None:
    model = scripted(honest)
    await audit(items(), [model], ONCE, samples=1, bases=0)
    assert len(model.requests) == sum(item.kind in (*LABELS, "self_praise") for item in items())


async def test_a_stopped_audit_goes_on_where_it_was(tmp_path: Path) -> None:
    asked: list[str] = []

    def counting(prompt: str) -> str:
        asked.append(prompt)
        return honest(prompt)

    reports = []
    for _ in range(2):
        model = CachedModel(scripted(counting), tmp_path / "replies.sqlite")
        reports.append(await audit(items(), [model], ONCE, samples=1, bases=1))
        await model.close()
    assert reports[0].judges[0].findings == reports[1].judges[0].findings
    assert len(asked) == len(set(asked)) == reports[0].judges[0].planned


async def test_a_judge_that_cannot_be_reached_stops_the_audit_with_the_servers_words() -> None:
    with serving([error(401, "this key is not known here")]) as server:
        model = OpenAIModel("judge", server.url, max_retries=0)
        with pytest.raises(WorldlmError, match="this key is not known here"):
            await audit(items(), [model], ONCE)
        await model.close()
    assert len(server.bodies) < 20


async def test_what_cannot_be_audited_is_refused() -> None:
    with pytest.raises(InputError, match="different names"):
        await audit(items(), [scripted(honest), scripted(honest)])
    with pytest.raises(InputError, match="none"):
        await audit(items(), [])
    with pytest.raises(InputError, match="real, small_fault, large_fault, wrong_turn"):
        await audit([], [scripted(honest)])
    with pytest.raises(InputError, match="larger context"):
        await audit(items(), [scripted(honest)], JudgeSettings(context=4096, sampling=Sampling(max_tokens=4000)))


def test_the_documentation_names_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "judging.md").read_text("utf-8")
    for name, limit in LIMITS.items():
        assert re.search(
            rf"^\| `{name}` .*\| {'above' if limit.most else 'below'} {limit.bound:g} \|$", page, re.MULTILINE
        )
