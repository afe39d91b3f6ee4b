// What each element of the page shows: a path into the state, its text, its value, and how that value is written.
(async () => {
  const words = await import("/dashboard/words.js");
  const links = [...document.querySelectorAll("nav li a")];
  const chosen = `/upstreams/${links.findIndex((link) => link.hasAttribute("aria-current"))}`;
  const place = (element) => {
    const row = element.closest("[data-row]");
    const whole = element.closest("main") ? chosen : "";
    const path = element.dataset.of.replaceAll(".", "/");
    if (row === null) return `${whole}/${path}`;
    const { each } = row.parentElement.dataset;
    if (each === "shown.exchanges") return `/exchanges/#${row.dataset.row}/${path}`;
    if (["exchanges", "attempts", "cache", "refusals"].includes(each)) return path === "value" ? `${whole}/${each}/${row.dataset.row}` : "";
    const rows = [...row.parentElement.children].filter((child) => child.dataset.row !== undefined);
    return `${whole}/${each.replaceAll(".", "/")}/${rows.indexOf(row)}/${path}`;
  };
  const elements = [...document.querySelectorAll("[data-of]")].filter((element) => element.closest("[hidden], template") === null);
  const one = (element) => {
    const isData = element instanceof HTMLDataElement;
    const value = isData ? (element.value === "" ? null : Number(element.value)) : undefined;
    const written = isData && !["left", "short"].includes(element.dataset.as) ? words[element.dataset.as ?? "text"](value) : element.textContent;
    return { path: place(element), text: element.textContent, value, written };
  };
  return { number: Number(document.querySelector("#number").value), link: document.body.dataset.link, shown: elements.map(one) };
})()
