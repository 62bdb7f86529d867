from __future__ import annotations

import csv
import errno
import json
import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from engine.worker.lifecycle import IN_THE_LOG, LONGEST_REASON
from sessions.disk.journal import Journal, read
from sessions.errors import RefeedError
from sessions.events import CacheProof, Ended, Event, Notice, PassEnded
from sessions.exchange.export import FORMATS, export
from sessions.exchange.imports import import_published
from sessions.exchange.tables import tables
from sessions.report.as_json import as_dict
from sessions.report.audit import Session, audit
from sessions.report.latex import Row, row
from sessions.spec import CampaignSpec, register
from sessions.state.fold import fold_all
from sessions.store import SessionFolder, Store
from stats.report import report
from tests.helpers.session_events import closed, engine_ready, opened, pivot, trunks_done
from tests.helpers.shared import SHARED
from tests.test_sessions_state import failure

PUBLISHED = SHARED / "data" / "published"
needs_data = pytest.mark.skipif(not PUBLISHED.exists(), reason=f"no published data at {PUBLISHED}; set REFEED_SHARED")
FAILED = CacheProof(state="failed", proof="counts", reason="96 of 144 tokens cached")
COUNTS = CacheProof(state="verified", proof="counts", hit_tokens=144)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def campaign(store: Store) -> SessionFolder:
    """A session with evidence, a failed pivot, a dropped problem, an abandoned attempt, and an open problem."""
    events: list[Event] = [opened(), engine_ready(), pivot(0, 0, 145, (4, 4, 4)), opened()]
    for problem in (0, 1):
        events += [trunks_done(problem, right=problem + 3, attempt=2)]
        for name in ("exact-1", "exact-2", "re-feed"):
            events.append(
                PassEnded(problem=problem, attempt=2, name=name, seconds=2.5, tokens=99, verified=10, failed=0)
            )
        events += [
            pivot(problem, 0, 145, (1, 0, -1), attempt=2, shifts=(0.0, 0.125), probes=("a1b2c3d4e5f60718", "ff" * 8)),
            pivot(problem, 1, 161, (2, 2, 2), attempt=2, cache=COUNTS),
            pivot(problem, 2, 177, (4, 4, -4), attempt=2, cache=FAILED),
            failure(problem, 2, 177, attempt=2),
            closed(problem, 3, attempt=2),
        ]
    events += [
        pivot(2, attempt=2),
        closed(2, 1, attempt=2, outcome="dropped"),
        Ended(state="finished", exit_code=0, reason="done"),
        pivot(3, attempt=2),
    ]
    spec = CampaignSpec(
        problems=3, cont_temperature=0.7, model="bundled", engine="embedded", task="arithmetic", wave=4, group=4
    )
    folder = store.create(register(spec, name="a_run"))
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in events:
            journal.append(event)
    return folder


def fold_of(folder: SessionFolder) -> Any:
    """Its folded state."""
    return fold_all(folder.spec(), read(folder.journal_path, folder.registration().digest))


def rows(path: Path) -> list[dict[str, str]]:
    """A csv file's rows."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_pivots_are_evidence_and_the_rest_is_apart_with_its_reason(store: Store, tmp_path: Path) -> None:
    """Nobody averages over a failed, dropped, abandoned or open pivot by accident."""
    folder = campaign(store)
    out = tmp_path / "out"
    names = [path.name for path in export(folder, ["csv"], out).files]
    assert names == [f"{folder.id}-{name}.csv" for name in ("pivots", "excluded", "problems", "passes")] + [
        f"{folder.id}-columns.md"
    ]
    found = rows(out / names[0])
    assert [(r["problem"], r["position"], r["net_exact1"], r["net_refeed"]) for r in found] == [
        ("0", "145", "1", "-1"),
        ("0", "161", "2", "2"),
        ("1", "145", "1", "-1"),
        ("1", "161", "2", "2"),
    ]
    first = found[0]
    assert (first["margin"], first["k"], first["cache"], first["proof"]) == ("0.125", "4", "verified", "ledger")
    assert (first["probe_delta_refeed"], first["probe_diverged_refeed"], first["probe_diverged_exact2"]) == (
        "0.125",
        "1",
        "0",
    )
    assert (found[1]["proof"], found[1]["hit_tokens"], found[1]["decode_tokens"]) == ("counts", "144", "")
    assert json.loads(first["actual_text"]) == " crayons"
    assert [r["excluded"] for r in rows(out / names[1])] == ["abandoned", "failed", "failed", "dropped", "open"]
    problems = rows(out / names[2])
    assert [(r["problem"], r["outcome"], r["evidence"], r["eligible"]) for r in problems] == [
        ("0", "measured", "2", "2"),
        ("1", "measured", "2", "2"),
        ("2", "dropped", "", ""),
        ("3", "", "", ""),
    ]
    assert problems[0]["trunks_right"] == "3"
    assert [(r["problem"], r["pass"], r["seconds"]) for r in rows(out / names[3])][:2] == [
        ("0", "exact-1", "2.5"),
        ("0", "exact-2", "2.5"),
    ]


def test_every_column_is_documented(store: Store, tmp_path: Path) -> None:
    """Each header of each table stands in the columns file, with a meaning."""
    paths = export(campaign(store), ["csv"], tmp_path / "out").files
    documented = paths[-1].read_text()
    for path in paths[:-1]:
        for name in path.read_text().splitlines()[0].split(","):
            assert f"| {name} |" in documented


def test_the_documentation_has_every_column_with_its_unit() -> None:
    """docs/export.md and the tables cannot drift apart."""
    documented = (Path(__file__).parents[1] / "docs" / "export.md").read_text()
    for table in tables(fold_all(CampaignSpec(), [])):
        _, _, section = documented.partition(f"## `{table.name}`\n")
        section, _, _ = section.partition("\n## ")
        lines = [f"| {c.name} | {c.type} | {c.unit} | {c.meaning} |" for c in table.columns]
        assert [line for line in section.splitlines() if line.startswith("| ")][2:] == lines
    assert all(f"`{name}`" in documented for name in FORMATS)


def test_jsonl_and_csv_say_the_same(store: Store, tmp_path: Path) -> None:
    """Row for row; null where csv is empty."""
    folder = campaign(store)
    export(folder, ["csv", "jsonl"], tmp_path)
    for name in ("pivots", "excluded", "problems", "passes"):
        lines = [json.loads(line) for line in (tmp_path / f"{folder.id}-{name}.jsonl").read_text().splitlines()]
        texts = [{key: "" if value is None else str(value) for key, value in line.items()} for line in lines]
        assert texts == rows(tmp_path / f"{folder.id}-{name}.csv")


def test_parquet_says_the_same_with_types_and_documentation(store: Store, tmp_path: Path) -> None:
    """Row for row as jsonl; each column carries its unit and meaning."""
    folder = campaign(store)
    export(folder, ["parquet", "jsonl"], tmp_path)
    for name in ("pivots", "excluded", "problems", "passes"):
        found = pq.read_table(tmp_path / f"{folder.id}-{name}.parquet")
        lines = [json.loads(line) for line in (tmp_path / f"{folder.id}-{name}.jsonl").read_text().splitlines()]
        assert found.to_pylist() == lines
        assert all(field.metadata[b"meaning"] for field in found.schema)
    pivots = pq.read_schema(tmp_path / f"{folder.id}-pivots.parquet")
    assert str(pivots.field("net_refeed").type) == "int64"
    assert pivots.field("margin").metadata == {b"unit": b"nats", b"meaning": b"top-1 minus top-2 raw logprob"}


def test_parquet_without_pyarrow_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra; nothing is written then."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RefeedError, match=r"needs pyarrow; `pip install '\.\[parquet\]'`") as caught:
        export(campaign(store), ["csv", "parquet"], tmp_path / "out")
    assert caught.value.kind == "usage"
    assert not (tmp_path / "out").exists()


def same(one: SessionFolder, two: SessionFolder) -> None:
    """Both have the same evidence, cache tally and report, notes aside."""
    first, second = fold_of(one), fold_of(two)
    for name in first.table().__slots__:
        np.testing.assert_array_equal(getattr(first.table(), name), getattr(second.table(), name), err_msg=name)
    reports = [
        as_dict(report(state.table(), alpha=0.05, decision=(0.02, 0.05), seed=0, draws=200, cache=None))
        for state in (first, second)
    ]
    assert reports[0] == reports[1]
    assert one.registration().digest == two.registration().digest


def test_importing_our_own_export_gives_the_same_report(store: Store, tmp_path: Path) -> None:
    """Settings, evidence, proofs and failures survive the published shape; only dropped problems' checks are gone."""
    folder = campaign(store)
    (path,) = export(folder, ["thaw"], tmp_path).files
    again = import_published(path, store)
    same(folder, again)
    one, two = fold_of(folder).cache_tally(), fold_of(again).cache_tally()
    assert one.failures == two.failures
    assert (two.checked, two.verified, two.ledger, two.counts) == (6, 4, 2, 2)
    assert one.checked == two.checked + 2
    (second,) = export(again, ["thaw"], tmp_path / "second").files
    assert json.loads(second.read_bytes())["pivots"] == json.loads(path.read_bytes())["pivots"]


@needs_data
@pytest.mark.parametrize("file", ["primary", "k8", "smoke"])
def test_thawing_a_published_run_gives_back_its_records(store: Store, tmp_path: Path, file: str) -> None:
    """Every published key of every pivot comes back with the same value, and so does the report."""
    folder = import_published(PUBLISHED / f"{file}.json", store)
    (path,) = export(folder, ["thaw"], tmp_path).files
    ours, theirs = json.loads(path.read_bytes()), json.loads((PUBLISHED / f"{file}.json").read_bytes())
    for pivot_record in ours["pivots"]:
        del pivot_record["refeed_tui"]
    assert ours["pivots"] == theirs["pivots"]
    assert ours["config"].items() >= theirs["config"].items()
    for mine, yours in zip(ours["per_problem"], theirs["per_problem"], strict=True):
        assert mine["total_seconds"] == pytest.approx(yours["total_seconds"], abs=1e-9)
        for key in ("problem_id", "pivots", "rollout_accuracy", "pass_seconds"):
            assert mine[key] == yours[key]
    same(folder, import_published(path, store))


@needs_data
def test_the_table_row_is_the_papers(store: Store, tmp_path: Path) -> None:
    """K = 8 in Table 1: 490 eligible, 35.7% against 10.4%, +25.3 points, clustered t 6.36; +19.0 by exact-1."""
    folder = import_published(PUBLISHED / "k8.json", store, "K=8 & more_")
    found = row(audit([Session.load(folder)]).report, "K=8 & more_")
    assert found[1:3] == ("783", "490")
    assert found.refeed.startswith("35.7% (")
    assert found.floor.startswith("10.4% (")
    assert (found.excess, found.t_clust, found.excess_exact1, found.verified) == ("+25.3", "6.36", "+19.0", "100.0%")
    md, tex = export(folder, ["md", "latex"], tmp_path).files
    assert "\n| K=8 \\& more\\_ | 783 | 490 |" in md.read_text()
    for text in (md.read_text(), tex.read_text()):
        assert "re-feed (reversed)" in text
        assert "in brackets the share whose sign was reversed" in text
    assert r"K=8 \& more\_ & 783 & 490 & 35.7\% (" in tex.read_text()


def test_a_row_without_evidence_has_dashes() -> None:
    """Nothing that cannot be computed is shown as a number."""
    table = fold_all(CampaignSpec(), []).table()
    assert row(report(table), "a") == Row("a", "0", "0", "-", "-", "-", "-", "-", "-", "-")


def test_anonymous_exports_leave_texts_and_names_out(store: Store, tmp_path: Path) -> None:
    """Neither token texts, nor the session's name, nor the host are in any file."""
    folder = campaign(store)
    for path in export(folder, [name for name in FORMATS if name != "bundle"], tmp_path, anonymous=True).files:
        content = path.read_bytes()
        assert b"crayons" not in content
        assert b"a_run" not in content
        assert b'"box"' not in content
    assert any("crayons" in path.read_text() for path in export(folder, ["csv"], tmp_path / "named").files)


def test_anonymous_exports_name_no_folder(store: Store, tmp_path: Path) -> None:
    """Paths name people: of model and task only the last part stays, and errors and notices say nothing of them."""
    spec = CampaignSpec(
        problems=3, cont_temperature=0.7, model="/home/annika/m", engine="embedded", task="jsonl:/annika/t"
    )
    folder = store.create(register(spec))
    end = Ended(state="failed", exit_code=1, reason="cannot read /home/annika/m")
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in (opened(), engine_ready(), Notice(kind="warning", text="annika's disk"), pivot(0), closed(0), end):
            journal.append(event)
    formats = [name for name in FORMATS if name != "bundle"]
    assert not any(
        b"annika" in path.read_bytes() for path in export(folder, formats, tmp_path / "a", anonymous=True).files
    )
    (thawed,) = export(folder, ["thaw"], tmp_path / "a", anonymous=True).files
    again = import_published(thawed, store)
    for path in export(again, formats, tmp_path / "again", anonymous=True).files:
        assert thawed.name.encode() not in path.read_bytes()
    same_evidence = fold_of(again).table()
    np.testing.assert_array_equal(same_evidence.net, fold_of(folder).table().net)


class _Text(HTMLParser):
    """Tags and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onload", "onerror"} & {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_html_report_is_one_inert_file_with_every_table(store: Store, tmp_path: Path) -> None:
    """Tables, a chart and the notes; nothing is loaded, nothing runs, and hostile text stays text."""
    spec = CampaignSpec(problems=9, model="<script>x</script>", engine="embedded", task="arithmetic")
    folder = store.create(register(spec, name="<img src=x>&"))
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        journal.append(opened())
        journal.append(engine_ready())
        for problem in range(8):
            journal.append(trunks_done(problem))
            journal.append(pivot(problem, nets=(1, 1, -1)))
            journal.append(closed(problem))
        journal.append(Notice(kind="warning", text="\x1b[2J</ul><b>"))
        journal.append(Ended(state="aborted", exit_code=1, reason="aborted by the user"))
    (path,) = export(folder, ["html"], tmp_path).files
    content = path.read_text()
    page = _Text()
    page.feed(content)
    assert not {"script", "img", "link", "iframe", "b"} & set(page.tags)
    assert "http://" not in content
    assert "https://" not in content
    assert "\x1b" not in content
    assert "common.refeed" not in content
    assert page.tags.count("svg") == 1
    assert page.tags.count("table") == 5
    for said in (
        "Re-feeding changed the sign of 8 of 8 credit estimates (100.0%)",
        "aborted by the user): 8 of 9 problems measured",
        "symmetry (primary)",
        "<script>x</script>",
        "excess +100.0pp",
        folder.registration().digest,
    ):
        assert said in page.text


def test_a_report_file_without_evidence_says_so(store: Store, tmp_path: Path) -> None:
    """No chart, no made-up number, and the notes say why."""
    folder = store.create(register(CampaignSpec()))
    (path,) = export(folder, ["html"], tmp_path).files
    content = path.read_text()
    assert "No pivot is eligible" in content
    assert "nothing to draw" in content
    assert "nan" not in content.lower().replace("instrumen", "")


def test_report_files_say_what_limits_them(store: Store, tmp_path: Path) -> None:
    """A resume is marked in Markdown, LaTeX and HTML, in text that cannot leave its line."""
    folder = campaign(store)
    md, tex, html = export(folder, ["md", "latex", "html"], tmp_path).files
    assert "- run 2 continued 00:00 after run 1 died" in md.read_text()
    assert "% note: run 2 continued 00:00 after run 1 died" in tex.read_text()
    assert "<li>run 2 continued 00:00 after run 1 died</li>" in html.read_text()


def test_text_of_a_session_stays_text_in_markdown_and_latex(store: Store, tmp_path: Path) -> None:
    """A notice cannot leave its comment or mark anything up; the row is one balanced line of ten cells."""
    folder = store.create(register(CampaignSpec(model="a|b", engine="embedded", task="arithmetic"), name="50%_&"))
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in (opened(), Notice(kind="warning", text="x\n\\input{y} [y](z) ~~z~~"), engine_ready()):
            journal.append(event)
    md, tex = export(folder, ["md", "latex"], tmp_path).files
    assert "x\\\\n\\\\input\\{y\\} \\[y\\](z) \\~\\~z\\~\\~" in md.read_text()
    assert "a\\|b on " in md.read_text()
    *comments, found = tex.read_text().splitlines()
    assert all(line.startswith("% ") for line in comments)
    assert found == r"50\%\_\& & 0 & 0 & - & - & - & - & - & - & - \\"


@pytest.mark.parametrize("name", ["- x", "+ x", "1. x", "1) x", "12345678) x", "    x", "$x^2$", "--- x"])
def test_a_model_s_name_cannot_begin_a_list_or_code_in_markdown(name: str, store: Store, tmp_path: Path) -> None:
    """It stands first in its paragraph; a renderer shows it as it is, and dollar signs mark no formula."""
    folder = store.create(register(CampaignSpec(model=name, engine="embedded", task="arithmetic")))
    (path,) = export(folder, ["md"], tmp_path).files
    rendered = MarkdownIt("commonmark").enable("table").render(path.read_text())
    assert f"<p>{name} on embedded " in rendered
    assert not {"<ol", "<pre", "<hr"} & {tag[:4] for tag in rendered.split()}
    assert "$" not in path.read_text().replace("\\$", "")


def test_every_form_of_a_report_says_a_long_reason_to_its_end(store: Store, tmp_path: Path) -> None:
    """A worker keeps 4,000 characters of a cause; how much was measured stands behind them."""
    folder = store.create(register(CampaignSpec(problems=3)))
    reason = f"{'x' * LONGEST_REASON}... ({IN_THE_LOG})"
    with Journal.open(folder.journal_path, folder.registration().digest) as journal:
        for event in (opened(), engine_ready(), Ended(state="failed", exit_code=1, reason=reason)):
            journal.append(event)
    for path in export(folder, ["md", "latex", "html"], tmp_path).files:
        assert "x... (worker.log has all of it)): 0 of 3 problems measured" in path.read_text(), path.name


def test_unknown_formats_and_broken_journals_are_refused(store: Store, tmp_path: Path) -> None:
    """Nothing is written then."""
    folder = campaign(store)
    with pytest.raises(RefeedError, match="no export format 'xls'; there are csv") as caught:
        export(folder, ["csv", "xls"], tmp_path / "out")
    assert caught.value.kind == "usage"
    folder.journal_path.write_bytes(folder.journal_path.read_bytes().replace(b" pens", b" pans"))
    with pytest.raises(RefeedError, match="line 3 "):
        export(folder, ["csv"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_no_part_of_an_export(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file and the cause."""
    folder = campaign(store)
    out = tmp_path / "out"

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RefeedError, match=r"cannot write .*pivots.csv: No space left"):
        export(folder, ["csv"], out)
    assert list(out.iterdir()) == []


def test_a_spec_that_contradicts_its_config_is_refused(store: Store, tmp_path: Path) -> None:
    """Our own exports carry the spec; one whose k differs from the config's was edited."""
    (path,) = export(campaign(store), ["thaw"], tmp_path).files
    content = json.loads(path.read_bytes())
    content["refeed_tui"]["spec"]["k"] = 8
    path.write_text(json.dumps(content))
    with pytest.raises(RefeedError, match="config says k = 4, but its spec says 8"):
        import_published(path, store)


def test_journals_of_one_digest_are_told_apart_by_their_events(store: Store) -> None:
    """The example session folds to what its events say."""
    state = fold_of(campaign(store))
    assert (state.dropped.abandoned, state.dropped.failed, state.dropped.problem, state.waiting) == (1, 2, 1, 1)
    assert msgspec.to_builtins(state.spec)["task"] == "arithmetic"
