// What does sopan tell, and does it still? Reads /events for as long as the page is open.
//
// With fetch and not with EventSource, which can send no secret. When it ends, or says nothing for too long, it is asked again, and
// whoever listens is told meanwhile. The secret, where one is wanted, stays in this tab.

const SILENCE_MAX_MS = 5_000;
const AGAIN_AFTER_MS = [250, 500, 1_000, 2_000, 3_000];
const KEPT_AS = "sopan admin token";
/** A secret that no field can carry is none. */
const CAN_BE_SENT = /^[!-~]+$/;
const WRONG = "That is not the secret.";

/** Reads until the page is left. `told(name, data, number)` gets each event; `link` what it is like: `live`, `gone` or `locked`. */
export async function follow({ told, link }) {
  for (let failures = 0; ; failures += 1) {
    const why = await once({
      told(...event) {
        failures = 0;
        try {
          told(...event);
        } catch (error) {
          // What is wrong with the page is not wrong with sopan.
          reportError(error);
        }
      },
      link,
    });
    if (why.isLocked) {
      sessionStorage.removeItem(KEPT_AS);
      link("locked", why.text);
      sessionStorage.setItem(KEPT_AS, await secret());
      continue;
    }
    link("gone", why.text);
    await pause(AGAIN_AFTER_MS[Math.min(failures, AGAIN_AFTER_MS.length - 1)]);
  }
}

/** Reads until that ends, and says why it did. */
async function once({ told, link }) {
  const abort = new AbortController();
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENCE_MAX_MS);
  };
  heard();
  try {
    const kept = sessionStorage.getItem(KEPT_AS);
    if (kept !== null && !CAN_BE_SENT.test(kept)) return { isLocked: true, text: WRONG };
    const headers = kept === null ? {} : { Authorization: `Bearer ${kept}` };
    const answer = await fetch("events", { headers, cache: "no-store", signal: abort.signal });
    if (answer.status === 401) return { isLocked: true, text: kept === null ? "" : WRONG };
    if (!answer.ok) return { text: await problem(answer) };
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { text: "" };
      heard();
      const pieces = (rest + value).split("\n\n");
      rest = pieces.pop();
      link("live", "");
      for (const piece of pieces) told(...read(piece));
    }
  } catch {
    // It cannot be reached, or was cut off.
    return { text: "" };
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

async function problem(answer) {
  try {
    return (await answer.json()).detail;
  } catch {
    return `It answers with ${answer.status}.`;
  }
}

/** The name, the data and the number of an event. */
function read(piece) {
  const fields = { event: "", data: "", id: "" };
  for (const line of piece.split("\n")) {
    const colon = line.indexOf(": ");
    fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  return [fields.event, JSON.parse(fields.data), Number(fields.id)];
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Asks for the secret, and answers when there is one. */
function secret() {
  const form = document.querySelector("#lock form");
  return new Promise((done) => {
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        done(form.elements.secret.value.trim());
        form.reset();
      },
      { once: true },
    );
  });
}
