"""What mkdocs cannot do by itself: the pages of the kinds (kept in the package), the changelog, the other language.

A hook of mkdocs (see mkdocs.yml). Nothing that it makes is in git.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File
from rules_page import summary_in_japanese

from outplace.knowledge.kinds import BY_CODE, KINDS, page

ROOT = Path(__file__).parents[1]
IMAGES = ("images", "stylesheets", "scripts")

WORDS = {
    "en": {
        "title": "Kinds of bug",
        "lead": "What `outplace run` diagnoses and `outplace check` finds, by the place where PyTorch speaks up. "
        "`outplace explain CODE` prints the same pages.",
        "OUT1": "Raised at the operation",
        "OUT2": "Raised at backward",
        "OUT3": "Silent (no error)",
        "head": ("code", "name", "what happens"),
    },
    "ja": {
        "title": "バグの種類",
        "lead": "`outplace run`が診断し、`outplace check`が見つけるバグの一覧です。"
        "PyTorchがどこでエラーを出すかで分けてあります。"
        "`outplace explain コード`でも同じ内容を（英語で）読めます。",
        "OUT1": "演算の場所でエラーになるもの",
        "OUT2": "backwardでエラーになるもの",
        "OUT3": "どこでもエラーにならないもの",
        "head": ("コード", "名前", "何が起きるか"),
    },
}
FAMILIES = ("OUT1", "OUT2", "OUT3")
JAPANESE = {
    "OUT101": "勾配を必要とするリーフがインプレースで変更される",
    "OUT102": "勾配を必要とするリーフのビューがインプレースで変更される",
    "OUT103": "1回の呼び出し（unbind、split、chunk）が作った複数のビューの1つが変更される",
    "OUT104": "no_gradやinference_modeの中で作られたビューが、勾配の記録が有効なときに変更される",
    "OUT105": "独自のautograd.Functionが返したビューが変更される",
    "OUT106": "推論テンソルが、inference_modeの外で変更または保持される",
    "OUT107": "勾配を必要とするテンソルとともにout=が使われる",
    "OUT108": "書き込まれるテンソルの複数の要素が同じメモリを共有している",
    "OUT109": "インプレース演算の結果が書き込み先に合わない: 形、dtype、レイアウト",
    "OUT110": "書き込むメモリを別の位置で読んでいる",
    "OUT111": "autogradの状態、大きさ、ストレージの、PyTorchが拒否する変更",
    "OUT112": "独自のautograd.Functionが、書き込む入力についての規則を破る",
    "OUT113": "torch.funcやforward-mode ADが追いかけられないインプレース演算",
    "OUT114": "torch.compile、export、カスタム演算子が拒否するインプレース演算",
    "OUT201": "backwardが必要とするテンソルが、保存されたあとで変更される",
    "OUT202": "順伝播とそのbackwardのあいだにパラメータが更新される",
    "OUT203": "backwardが必要とするテンソルや損失そのものが、インプレースで切り離される",
    "OUT204": "インプレース演算がグラフの中で置き換えたテンソルの勾配を求めている",
    "OUT205": "backwardで使える導関数を持たないインプレース演算",
    "OUT206": "チェックポイントした領域が、順伝播のときと違う値を再計算する",
    "OUT207": "前のbackwardが解放したグラフの一部に、backwardが入り込む",
    "OUT301": ".dataや切り離した別名を通した書き込みが、backwardの必要とする値を黙って変える",
    "OUT302": "numpyなどと共有するメモリが、autogradの知らないところで変わる",
    "OUT303": "別名のリスト、残した参照、書き込むフックが、学習を黙って間違ったものにする",
}
"""The families; a silent rule's summary is the first sentence of its Japanese page."""


def _summary(kind, language):
    if language == "en":
        return kind.summary
    if kind.code in JAPANESE:
        return JAPANESE[kind.code]
    return summary_in_japanese(kind.code) or kind.summary


def on_config(config):
    """Puts a page for each kind where the navigation says `kinds/`."""
    words = WORDS[config.theme["language"]]
    kinds = ["kinds/index.md"]
    for family in FAMILIES:
        pages = [{f"{kind.code} {kind.name}": f"kinds/{kind.code}.md"} for kind in KINDS if kind.code[:4] == family]
        kinds.append({words[family]: pages})
    config.nav = [
        {name: kinds} if item == "kinds/" else {name: item} for entry in config.nav for name, item in entry.items()
    ]
    return config


def on_files(files, config):
    """Adds what lies elsewhere: the kinds, the changelog, and for Japanese the pictures and what is not translated."""
    language = config.theme["language"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8").replace("](docs/", "](")
    made = {"kinds/index.md": _overview(language), "changelog.md": changelog}
    made |= {f"kinds/{kind.code}.md": page(kind) for kind in KINDS}
    for name, text in made.items():
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=text))
    if language != "en":
        for folder in IMAGES:
            for path in sorted((ROOT / "docs" / folder).rglob("*.*")):
                name = path.relative_to(ROOT / "docs").as_posix()
                files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def _overview(language):
    words = WORDS[language]
    lines = [f"# {words['title']}", "", words["lead"]]
    for family in FAMILIES:
        lines += ["", f"## {words[family]}", "", f"| {' | '.join(words['head'])} |", "|---|---|---|"]
        for kind in KINDS:
            if kind.code.startswith(family):
                lines.append(f"| [{kind.code}]({kind.code}.md) | `{kind.name}` | {_summary(kind, language)} |")
    return "\n".join(lines) + "\n"


CODE = re.compile(r"\bOUT[123]\d\d\b")
# Code and links are left as they are.
OPAQUE = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))")


def on_page_markdown(markdown, page, config, files):
    """Makes rule codes links, and finds the pictures from a folder further in."""
    here = page.file.src_uri
    folder = "" if here.startswith("kinds/") else "kinds/"
    lines = []
    fenced = False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if not fenced and not line.startswith("#"):
            parts = OPAQUE.split(line)
            line = "".join(part if index % 2 else _linked(part, folder, here) for index, part in enumerate(parts))
            if config.theme["language"] != "en":
                line = line.replace("](../images/", "](images/").replace('src="../images/', 'src="images/')
        lines.append(line)
    return "\n".join(lines)


def _linked(text, folder, here):
    def link(match):
        code = match[0]
        known = code in BY_CODE and not here.endswith(f"{code}.md")
        return f"[{code}]({folder}{code}.md)" if known else code

    return CODE.sub(link, text)


LINE = re.compile(r'<span class="go">([^<\n]*)</span>')
COLOURS = (  # of the reports, as a terminal shows them
    (re.compile(r"(─+ \w+ here.*)"), "saved"),
    (re.compile(r"(\^+ \w+ here.*)"), "wrote"),
    (re.compile(r"(~+ \w+ here.*)"), "raised"),
    (re.compile(r"^(OUT\d{3} [\w-]+)(?=[: ])"), "wrote"),
    (re.compile(r"^(\+(?!\+).*)"), "fixed"),
    (re.compile(r"^(-(?!-).*)"), "wrote"),
    (re.compile(r"^(  fix)(?= )"), "fixed"),
)


def on_page_content(html, page, config, files):
    """Colours what commands print."""

    def coloured(match):
        text = match[1]
        for pattern, name in COLOURS:
            text, found = pattern.subn(rf'<span class="{name}">\1</span>', text, count=1)
            if found:
                break
        return f'<span class="go">{text}</span>'

    return LINE.sub(coloured, html)


def on_post_page(output, page, config):
    """Leads from each page to itself in the other language."""
    up = "../" * page.url.count("/")
    english, japanese = ("", "ja/") if config.theme["language"] == "en" else ("../", "")
    for language, root in (("en", english), ("ja", japanese)):
        output = re.sub(
            rf'href="[^"]*" hreflang="{language}"', f'href="{up}{root}{page.url}" hreflang="{language}"', output
        )
    return output
