"use strict";

const byId = id => document.getElementById(id);
const sliders = {
  temperature: value => Number(value).toFixed(2),
  top_p: value => Number(value).toFixed(2),
  tokens: value => value,
};
let stopper = null; // ends the text under way
let continuesPrompt = true; // a T5 writes another text instead

function showSliders() {
  for (const [id, shown] of Object.entries(sliders)) {
    byId(id + "-shown").textContent = shown(byId(id).value);
  }
}

function say(text, isError = false) {
  byId("state").textContent = text;
  byId("state").classList.toggle("error", isError);
}

function headers() {
  const key = byId("key").value;
  return {
    "Content-Type": "application/json",
    ...(key ? { Authorization: "Bearer " + key } : {}),
  };
}

async function showModel() {
  const reply = await fetch("/v1/models", { headers: headers() });
  if (reply.status === 401) {
    byId("key-row").hidden = false;
    byId("model").textContent = "This server asks for an API key.";
    return;
  }
  const model = (await reply.json()).data[0];
  continuesPrompt = model.continues_prompt;
  byId("model").textContent = model.id + ", texts of up to " + model.max_model_len + " tokens";
  byId("tokens").max = Math.min(2048, model.max_model_len - 1);
}

// A token without certainty has a coloured ground.
function addToken(piece, score, best) {
  const span = document.createElement("span");
  span.className = "token";
  span.textContent = piece;
  if (score !== null) {
    const doubt = 1 - Math.exp(score);
    span.style.background = `rgba(var(--doubt), ${(doubt * 0.45).toFixed(3)})`;
    span.best = best;
    span.score = score;
  }
  byId("text").append(span);
}

function percent(score) {
  const share = 100 * Math.exp(score);
  return share >= 0.1 ? share.toFixed(1) + " %" : "< 0.1 %";
}

function showTip(span) {
  const tip = byId("tip");
  if (!span || span.score === undefined) {
    tip.hidden = true;
    return;
  }
  const rows = Object.entries(span.best || {});
  if (!rows.some(([piece]) => piece === span.textContent)) {
    rows.push([span.textContent, span.score]);
  }
  rows.sort((a, b) => b[1] - a[1]);
  const table = document.createElement("table");
  for (const [piece, score] of rows) {
    const row = table.insertRow();
    row.classList.toggle("chosen", piece === span.textContent);
    row.insertCell().textContent = JSON.stringify(piece).slice(1, -1);
    row.insertCell().textContent = percent(score);
  }
  tip.replaceChildren(table);
  tip.hidden = false;
  const box = span.getClientRects()[0];
  const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
  tip.style.left = window.scrollX + Math.max(8, left) + "px";
  tip.style.top = window.scrollY + box.bottom + 6 + "px";
}

// Calls take(data) for every event of a stream.
async function readEvents(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data !== "[DONE]") {
        take(JSON.parse(data));
      }
    }
  }
}

async function proceed() {
  const prompt = byId("prompt").value;
  const seed = byId("seed").value;
  byId("go").disabled = true;
  byId("stop").disabled = false;
  byId("text").replaceChildren();
  if (continuesPrompt) {
    const shown = document.createElement("span");
    shown.className = "prompt";
    shown.textContent = prompt;
    byId("text").append(shown);
  }
  say("…");
  stopper = new AbortController();
  const begin = performance.now();
  let count = 0;
  const report = end => say(
    `${count} tokens, ${(count / (performance.now() - begin) * 1000).toFixed(1)} a second${end}`);
  try {
    const reply = await fetch("/v1/completions", {
      method: "POST",
      headers: headers(),
      signal: stopper.signal,
      body: JSON.stringify({
        prompt,
        max_tokens: Number(byId("tokens").value),
        temperature: Number(byId("temperature").value),
        top_p: Number(byId("top_p").value),
        logprobs: 5,
        stream: true,
        ...(seed === "" ? {} : { seed: Number(seed) }),
      }),
    });
    if (!reply.ok) {
      byId("key-row").hidden = reply.status !== 401 && byId("key-row").hidden;
      throw new Error((await reply.json()).error.message);
    }
    await readEvents(reply.body, data => {
      if (data.error) {
        throw new Error(data.error.message);
      }
      for (const choice of data.choices) {
        const { tokens, token_logprobs, top_logprobs } = choice.logprobs;
        tokens.forEach((piece, i) => addToken(piece, token_logprobs[i], top_logprobs[i]));
        count += tokens.length;
      }
      report("");
    });
    report("");
  } catch (error) {
    if (error.name === "AbortError") {
      report(", stopped");
    } else {
      say(error.message, true);
    }
  } finally {
    byId("go").disabled = false;
    byId("stop").disabled = true;
    stopper = null;
  }
}

for (const id of Object.keys(sliders)) {
  byId(id).addEventListener("input", showSliders);
}
byId("go").addEventListener("click", proceed);
byId("stop").addEventListener("click", () => stopper && stopper.abort());
byId("clear").addEventListener("click", () => {
  byId("prompt").value = "";
  byId("text").replaceChildren();
  say("");
});
byId("prompt").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !byId("go").disabled) {
    proceed();
  }
});
byId("key").addEventListener("change", showModel);
byId("key-row").addEventListener("submit", event => event.preventDefault());
byId("text").addEventListener("pointerover", event => showTip(event.target.closest(".token")));
byId("text").addEventListener("pointerleave", () => showTip(null));
// A link may bring a prompt and settings: #prompt=Once&tokens=20&seed=1&go
const link = new URLSearchParams(location.hash.slice(1));
for (const id of ["prompt", "seed", ...Object.keys(sliders)]) {
  if (link.has(id)) {
    byId(id).value = link.get(id);
  }
}
showSliders();
showModel().catch(error => say(error.message, true)).then(() => {
  if (link.has("go")) {
    proceed();
  }
});
