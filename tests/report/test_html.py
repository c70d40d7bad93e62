"""The HTML report: what it is made of, and that nothing a user wrote becomes part of the page."""

from __future__ import annotations

import base64
import difflib
import hashlib
import html as entities
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from html_samples import DIFF, SOURCE, refused, saved, silent, site, sources
from hypothesis import given, settings
from hypothesis import strategies as st

from outplace.errors import OutplaceError
from outplace.knowledge.kinds import BY_CODE
from outplace.knowledge.kinds import page as rules_text
from outplace.model import Diagnosis, Fix, Mutation, SavedTensor, Site, Tensor
from outplace.report import html
from outplace.report.html import figure, highlight, memory, rule_pages, sides, story
from outplace.report.html.figure import MOST_LANES
from outplace.report.html.story import Event
from outplace.report.json import read_diagnosis, report

LIMIT = 400_000


def data(*diagnoses: Diagnosis) -> dict:
    return {**report(diagnoses, "2.13.0"), "sources": sources()}


class Document(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    VOID = frozenset(["meta", "link", "br", "img", "col"])

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text += text

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


# -- the whole page ---------------------------------------------------------------------------------------------------


def kept_twice() -> Diagnosis:
    """With a second saver in the graph, and more writing lines than are told."""
    diagnosis = saved()
    other = SavedTensor("MmBackward0", "self", 0, site(4, "x @ w"), 0)
    many = tuple(
        Mutation("add_", replace(site(6, "h += 1"), line=number, end_line=number), 1) for number in range(20, 30)
    )
    return replace(diagnosis, also_saved_by=(other,), mutations=(*many, *diagnosis.mutations))


@pytest.mark.parametrize("make", [saved, refused, silent, kept_twice])
def test_every_element_is_closed_and_every_link_leads_somewhere(make):
    page = Document(html.page(data(make())))
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(names) == len(set(names))
    links = [attributes["href"] for attributes in page.tags("a")]
    assert links and {link[1:] for link in links} <= set(names)
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", names[0]) in names


def test_the_page_loads_nothing():
    page = html.page(data(saved(), refused()))
    for _, attributes in Document(page).elements:
        for name in ("src", "href", "srcset", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:,"))
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp", page)


def test_the_page_allows_its_own_script_and_no_other():
    page = html.page(data(saved()))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [meta["content"] for meta in Document(page).tags("meta") if "http-equiv" in meta]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_story_is_told():
    page = Document(html.page(data(saved())))
    for told in ("h was overwritten after exp kept it", "saved here", "overwritten here: += (v0 → v1)", "raised here"):
        assert told in page.text
    assert "9 more nodes" in page.text
    assert "14 other nodes of the graph are not drawn" in page.text


def test_a_run_without_a_bug_has_a_page():
    assert "No in-place bug was seen" in Document(html.page(data())).text
    assert "had not imported torch" in Document(html.page({**data(), "torch": None})).text


def test_several_bugs_have_an_index():
    page = Document(html.page(data(saved(), refused(), silent())))
    assert "3 in-place bugs" in page.text
    assert [a["href"] for a in page.tags("a") if (a["href"] or "").startswith("#bug")][:3] == [
        "#bug1",
        "#bug2",
        "#bug3",
    ]


@pytest.mark.parametrize(
    "ranks, shown", [([2], "rank 2"), ([0, 3], "ranks 0, 3"), ([0, 1, 2, 3], "ranks 0 to 3"), ([], "1 of")]
)
def test_ranks_are_named(ranks, shown):
    entry = {**data(saved())["diagnoses"][0], "ranks": ranks}
    text = Document(html.page({**data(), "diagnoses": [entry]})).text
    assert (shown in text) == bool(ranks)


def test_further_sections_stand_below():
    page = html.page(data(saved()), [html.Section("Memory <now>", "<svg id='mine'></svg>")])
    assert "Memory &lt;now&gt;" in page
    assert "<svg id='mine'></svg>" in page
    assert page.index("id='mine'") > page.index("What to write instead")


def test_fragments_can_share_a_document():
    one, other = html.fragment([saved()]), html.fragment([saved()])
    names = [attributes["id"] for _, attributes in Document(one + other).elements if "id" in attributes]
    assert len(names) == len(set(names))


def test_a_fragment_reads_the_source_itself(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(SOURCE)
    assert "y = h * 2" in Document(html.fragment([saved(file=str(file))])).text


def test_source_that_is_gone_is_shown_as_far_as_it_is_known():
    page = Document(html.page({**data(saved()), "sources": {}}))
    assert "torch.exp(x @ w)" in page.text


# -- hostile text -----------------------------------------------------------------------------------------------------

EVIL = """</script></pre><img src=x onerror="alert(1)">'"&lt;{{7*7}}`--><b>"""


def evil() -> dict:
    place = Site(f"{EVIL}.py", 1, 1, 0, 5, EVIL, EVIL)
    diagnosis = saved(EVIL)
    nodes = tuple(replace(node, node=f"{EVIL}Backward0", site=place, leaf=EVIL) for node in diagnosis.graph.nodes)
    diagnosis = replace(
        diagnosis,
        kind=EVIL,
        code=EVIL,
        error=EVIL,
        why=EVIL,
        notes=(EVIL,),
        raised_at=place,
        saved_by=replace(diagnosis.saved_by, node=EVIL, saved_as=EVIL, site=place),
        also_saved_by=(replace(diagnosis.saved_by, node=EVIL, site=place),),
        mutations=(Mutation(EVIL, place, 1, 2, (place,), 3),),
        fixes=(Fix(EVIL, "safe", DIFF.replace("h += 1", EVIL).replace("train.py", EVIL)),),
        graph=replace(diagnosis.graph, nodes=nodes),
    )
    return {**report([diagnosis], EVIL), "sources": {f"{EVIL}.py": {"1": EVIL, "2": EVIL}}}


def test_what_users_write_stays_text():
    page = html.page(evil())
    clean = Document(html.page(data(saved())))
    document = Document(page)
    assert {tag for tag, _ in document.elements} <= {tag for tag, _ in clean.elements}
    assert len(document.tags("script")) == 1
    assert not any(name.startswith("on") for _, attributes in document.elements for name in attributes)
    assert document.text.count(EVIL) > 8


def test_text_that_no_file_can_hold_is_written_visibly():
    page = html.page(data(replace(saved(), why="half \ud800, bell \x07, turned \u202eround")))
    assert r"half \ud800, bell \u0007, turned \u202eround" in page
    page.encode("utf-8")


# -- size -------------------------------------------------------------------------------------------------------------


def test_a_page_stays_small_however_much_there_is_to_tell():
    many = html.page(data(*[saved(f"h{number}") for number in range(3_000)]))
    assert len(many.encode()) < LIMIT
    assert "3,000 in-place bugs" in many
    assert "are drawn here; all are in the report" in many
    assert len(html.page(data(*[saved("h" * 3_000, fix=Fix("x" * 9_000, "safe", DIFF))] * 5)).encode()) < LIMIT


def test_one_enormous_diagnosis_stays_small():
    long = "x" * 1_000_000
    patch = "--- a/f\n+++ b/f\n" + f"@@ -1,3000 +1,3000 @@\n{'-' + 'y' * 300}\n" * 3_000
    writes = tuple(Mutation(f"op{n}_", site(6, "h += 1"), n) for n in range(5_000))
    huge = replace(
        saved(long), error=long, why=long, notes=(long,), fixes=(Fix(long, "safe", patch),), mutations=writes
    )
    assert len(html.page(data(huge)).encode()) < LIMIT


# -- the data it is made from -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [saved, refused, silent])
def test_a_diagnosis_survives_the_way_through_json(make):
    diagnosis = make()
    (entry,) = report([diagnosis], "2.13.0")["diagnoses"]
    again = read_diagnosis(entry)
    assert again == diagnosis
    assert again.graph == diagnosis.graph
    assert [change.moment for change in again.mutations] == [change.moment for change in diagnosis.mutations]


def test_it_needs_no_torch():
    program = "import sys; from outplace.report import html; html.fragment([]); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_a_report_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OutplaceError, match="there is no folder"):
        html.write(tmp_path / "none" / "r.html", data())


# -- the story --------------------------------------------------------------------------------------------------------


def test_events_come_in_the_program_s_order():
    told = [(event.role, event.title) for event in story.tell(saved())]
    assert told == [
        ("leaf", "w"),
        ("node", "@"),
        ("saved", "exp"),
        ("gap", "9 more nodes"),
        ("overwritten", "+="),
        ("node", "+"),
        ("node", "mean"),
        ("raised", "backward"),
    ]


def test_a_write_outside_the_graph_cuts_in_where_it_happened():
    diagnosis = saved()
    write = Mutation("step", site(9, "loss"), 1, moment=14)
    titles = [event.title for event in story.tell(replace(diagnosis, mutations=(write,)))]
    assert titles.index("step") == titles.index("mean") - 1


def test_a_refused_operation_ends_the_story():
    events = story.tell(refused())
    assert [(event.role, event.touch) for event in events] == [("made", "made"), ("overwritten", "refused")]


def test_what_was_kept_is_stale_once_it_is_written():
    touches = {touch.what: touch for touch in memory.memory(story.tell(saved()), 0).touches}
    assert touches["keeps"].stale
    assert touches["keeps"].label == "v0"
    assert touches["writes"].label == "v1"
    assert touches["wants"].label == "≠ v0"


@st.composite
def graphs(draw):
    """Nodes in the order they were made; the last one is the root, number 0, and each leads to older ones."""
    count = draw(st.integers(1, 12))
    order = [count - place - 1 for place in range(count)]
    events = []
    for place, node in enumerate(order):
        older = order[:place]
        inputs = draw(st.lists(st.sampled_from(older), unique=True, max_size=3)) if older else []
        role = draw(st.sampled_from(["node", "node", "saved", "gap"]))
        events.append(Event(role, "t", moment=float(place), node=node, inputs=tuple(inputs)))
    if draw(st.booleans()):
        events.append(Event("raised", "backward", moment=99.0))
    return events


def ends(path: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where a line of straight and curved pieces begins and ends."""
    x, y = map(int, re.match(r"M(\d+) (-?\d+)", path).groups())
    start = (x, y)
    for command, numbers in re.findall(r"([VC])([-\d ]+)", path):
        if command == "V":
            y = int(numbers)
        else:
            x, y = map(int, numbers.split()[-2:])
    return start, (x, y)


@settings(max_examples=60)
@given(graphs())
def test_every_edge_is_drawn_between_its_two_nodes(events):
    drawn = figure.lanes(events)
    rows = figure.middles(events)
    place = {event.node: row for event, row in zip(events, rows, strict=True) if event.node is not None}
    points = {dot.y: (dot.x, dot.y) for dot in drawn.dots}
    expected = {
        (points[place[event.node]], points[place[other]])
        for event in events
        if event.node is not None
        for other in event.inputs
    }
    if events[-1].role == "raised":
        expected.add((points[rows[-1]], points[place[0]]))
    assert {ends(edge.d) for edge in drawn.edges} == expected
    assert all(0 <= dot.x <= drawn.width and 0 <= dot.y <= drawn.height for dot in drawn.dots)
    assert drawn.width <= 2 * figure.LEFT + MOST_LANES * figure.LANE


@settings(max_examples=60)
@given(graphs())
def test_a_lane_never_runs_through_the_dot_of_a_node_it_does_not_lead_to(events):
    drawn = figure.lanes(events)
    if any(dot.x == figure.LEFT + (MOST_LANES - 1) * figure.LANE for dot in drawn.dots):
        return  # more lanes than fit are drawn over each other
    dots = {(dot.x, dot.y) for dot in drawn.dots if dot.role != "raised"}
    for edge in drawn.edges:
        if re.fullmatch(r"M\d+ -?\d+V-?\d+", edge.d):
            (x, low), (_, high) = ends(edge.d)
            assert not any(x == dot_x and high < dot_y < low for dot_x, dot_y in dots)


# -- code -------------------------------------------------------------------------------------------------------------


def text_of(markup: str) -> str:
    return entities.unescape(re.sub(r"<[^>]*>", "", markup))


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=3))
def test_colours_and_marks_change_no_character(text, places):
    marks = [highlight.Stretch(min(pair), max(pair), "saved") for pair in places]
    assert text_of(highlight.line(text, marks)) == text


def test_the_very_expression_is_marked():
    marked = highlight.line("y = h.exp()", [highlight.Stretch(4, 11, "saved")])
    assert '<mark class="saved">h.exp()</mark>' in marked


@given(st.lists(st.sampled_from("abcdef"), max_size=12), st.lists(st.sampled_from("abcdef"), max_size=12))
def test_both_sides_show_the_lines_of_their_own_file(old, new):
    diff = "".join(line + "\n" for line in difflib.unified_diff(old, new, "a/f.py", "b/f.py", lineterm=""))
    rows = sides.rows(diff)
    for row in rows:
        for side, lines in ((row.before, old), (row.after, new)):
            if side is not None:
                assert lines[side.number - 1] == text_of(side.code)
    changed = [text_of(row.after.code) for row in rows if row.after and row.after.changed]
    assert changed == sides.new_lines(diff).split()
    assert len(changed) - sum(bool(row.before and row.before.changed) for row in rows) == len(new) - len(old)


def test_the_picture_uses_the_user_s_own_names():
    page = Document(html.page(data(saved("hidden"))))
    assert "hidden and exp both point at one box, which now holds v1 instead of v0." in {
        attributes.get("aria-label") for attributes in page.tags("svg")
    }


def test_a_tensor_without_a_name_has_no_picture_of_names():
    assert "The same box" not in Document(html.page(data(replace(saved(), tensor=Tensor(None))))).text


# -- what stands where ------------------------------------------------------------------------------------------------


def test_the_fix_stands_under_the_headline_and_the_reason_beside_it():
    text = html.page(data(saved()))
    order = ['-title">', ">What to write instead", ">Why<", ">What happened"]
    assert sorted(order, key=text.index) == order


def test_names_of_backward_nodes_are_shown_on_hover_only():
    page = Document(html.page(data(saved())))
    assert "Backward0" not in page.text.split("PyTorch’s own words")[0]
    hovers = [attributes.get("title") or "" for _, attributes in page.elements]
    assert any(hover.startswith("MmBackward0: ") for hover in hovers)


@pytest.mark.parametrize("make", [lambda shown: html.page(data(*shown)), html.fragment])
def test_the_code_of_a_rule_links_to_its_page(make):
    page = Document(make([saved(), saved(), silent()]))
    links = [a["href"] for a in page.tags("a") if "data-rule" in a]
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(links) == 3 and {link[1:] for link in links} <= set(names) and len(names) == len(set(names))
    assert page.text.count("Most derivatives need a value from the forward pass") == 1


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_the_page_of_a_rule_has_all_its_words(code):
    made = rule_pages.rule_page("", code)
    Document(str(made.html))
    rendered = text_of(re.sub(r"</(p|h4|li|pre|td|th)>", " ", made.html))
    words = re.findall(r"\w+", re.sub(r"\]\([^)]*\)|```\w*", "", rules_text(BY_CODE[code])))
    assert re.findall(r"\w+", f"{made.title} {rendered}") == words


@pytest.mark.parametrize(
    "editor, address",
    [
        ("vscode", "vscode://file/{path}:4:9"),
        ("pycharm", "pycharm://open?file=/{path}&line=4"),
        ("idea://open?file={path}&line={line}", "idea://open?file={path}&line=4"),
        ("", None),
    ],
)
def test_a_place_opens_in_the_editor_that_is_set(monkeypatch, tmp_path, editor, address):
    monkeypatch.setenv("OUTPLACE_EDITOR", editor)
    file = tmp_path / "my train.py"
    links = [a["href"] for a in Document(html.page(data(saved(file=str(file))))).tags("a") if a.get("class") == "opens"]
    path = file.as_posix().lstrip("/").replace(" ", "%20")
    assert links[:1] == ([address.format(path=path)] if address else [])


def test_a_cell_of_a_notebook_is_no_file_to_open(monkeypatch):
    monkeypatch.setenv("OUTPLACE_EDITOR", "vscode")
    assert "vscode://" not in html.page(data(saved(file="<ipython-input-3-0f>")))


def test_what_was_and_what_will_be_are_not_told_by_colour_alone():
    style = html.render._text("style.css")
    assert re.search(r'number\.old::after \{ content: "−"', style) and re.search(
        r'number\.new::after \{ content: "\+"', style
    )


def test_code_keeps_its_indentation_in_tools_that_collapse_white_space():
    """nbconvert reads HTML with a parser that makes one space of many, but for `pre`."""
    lines = re.findall(r'<div class="line[^>]*><span class="number">\d+</span><(\w+)>( *)', html.page(data(saved())))
    assert {tag for tag, _ in lines} == {"pre"} and any(space == "    " for _, space in lines)
