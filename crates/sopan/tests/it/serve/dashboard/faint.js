// Texts that are hard to read: below 4.5 to 1 against what is behind them (WCAG 2.2, 1.4.3).
(() => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let up = element; up !== null; up = up.parentElement) {
      const colour = getComputedStyle(up).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("body *")].filter((element) => element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ""));
  const contrast = (element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  return texts.map((element) => [contrast(element), element]).filter(([ratio]) => ratio < 4.5).map(([ratio, element]) => `${ratio.toFixed(2)} ${element.outerHTML.slice(0, 120)}`);
})()
