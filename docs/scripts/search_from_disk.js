// Browsers do not let a page that was opened from disk read the search index. Say so instead of finding nothing.
if (location.protocol === "file:") {
  // The theme hides the box, perhaps later than this.
  const show = (search) => {
    search.hidden = false;
    new MutationObserver(() => { if (search.hidden) search.hidden = false; }).observe(search, { attributes: true });
  };
  const says = document.documentElement.lang === "ja"
    ? "検索にはサーバーが必要です: python -m http.server"
    : "Search needs a server: python -m http.server";
  for (const box of document.querySelectorAll(".md-search__input")) {
    box.placeholder = says;
    box.title = says;
    box.disabled = true;
    show(box.closest(".md-search"));
  }
}
