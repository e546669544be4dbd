"""HTML to Markdown, without what stands round a page: navigation, scripts, styles."""

import datetime
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from worldlm.core.errors import SetupError
from worldlm.retrieval.document import parse_date
from worldlm.retrieval.plain import plain_text

_DROPPED = (
    "//script | //style | //nav | //noscript | //template | //form | //comment() | //processing-instruction()"
    " | //*[@role='navigation' or @role='search' or @hidden]"
    " | //a[contains(@class, 'headerlink')]"
    + "".join(
        f" | //*[contains(concat(' ', normalize-space(@class), ' '), ' {name} ')]"
        # DocBook, Sphinx, and mandoc write these.
        for name in ("navheader", "navfooter", "related", "sphinxsidebar", "head", "foot")
    )
)
_DATE = (
    "//meta[@name='date' or @name='dcterms.date' or @name='last-modified' or @property='article:modified_time'"
    " or @property='article:published_time']/@content | //time/@datetime | //td[@class='foot-date']/text()"
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """What a page says."""

    title: str
    text: str
    """Markdown, without the title."""
    date: datetime.date | None


def read_html(data: bytes, url: str, title: str = "") -> HtmlPage:
    """The page that stands at `url`: links are made absolute.

    The title is the one given, else that of the head, else the first heading. Raises ValueError for what is no HTML.
    """
    html, convert = _libraries()
    try:
        root = html.document_fromstring(data, parser=html.HTMLParser(encoding=_encoding(data)))
    except Exception as error:  # lxml's own errors are of several kinds
        raise ValueError(f"not HTML: {error}") from error
    days = [day for text in root.xpath(_DATE) if (day := parse_date(str(text))) is not None]
    title = title or " ".join((root.findtext(".//title") or "").split())
    for element in root.xpath(_DROPPED):
        if element.getparent() is not None:
            element.drop_tree()
    for link in root.xpath("//a[starts-with(@href, '#')]"):
        link.drop_tag()
    for link in root.xpath("//a[@title]"):
        del link.attrib["title"]
    root.make_links_absolute(url, handle_failures="ignore")
    body = root.find("body")
    text = convert(html.tostring(root if body is None else body, encoding="unicode"))
    heading = re.match(r"\s*#{1,6} ([^\n]+)(?:\n|$)", text)
    if heading and (not title or _bare(heading[1]) == _bare(title)):
        title, text = title or _bare(heading[1]), text[heading.end() :]
    return HtmlPage(title, text.strip(), days[0] if days else None)


def _bare(heading: str) -> str:
    return " ".join(plain_text(heading).split())


def _encoding(data: bytes) -> str | None:
    """UTF-8 where the bytes are that; otherwise what the page says of itself."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "utf-8"


@cache
def _libraries() -> tuple[Any, Any]:
    try:
        from html_to_markdown import ConversionOptions, convert
        from lxml import html
    except ImportError as error:
        message = "pages of HTML need the libraries lxml and html-to-markdown: pip install 'worldlm[real]'"
        raise SetupError(message) from error
    options = ConversionOptions(extract_metadata=False, compact_tables=True, skip_images=True)
    return html, lambda text: convert(text, options).content or ""


__all__ = ["HtmlPage", "read_html"]
