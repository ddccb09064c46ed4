// Talking to the server: a token, problem documents, versions, and events that survive a lost connection.

const KEPT = "penstock-token";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `status ${status}`);
    this.status = status;
    this.title = document.title || "";
  }
}

// A token may arrive in the fragment of the address, which browsers do not send; it is taken out at once.
const arrived = new URLSearchParams(location.hash.slice(1)).get("token");
if (arrived) {
  sessionStorage.setItem(KEPT, arrived);
  history.replaceState(null, "", location.pathname + "#/");
}

export const token = {
  get: () => sessionStorage.getItem(KEPT) || "",
  set: (text) => sessionStorage.setItem(KEPT, text),
  drop: () => sessionStorage.removeItem(KEPT),
};

function headersFor(more = {}) {
  const headers = { Accept: "application/json", ...more };
  // A header has no other characters: what a careless copy brought along is then a wrong token, not a silence.
  if (token.get()) headers.Authorization = `Bearer ${token.get().replace(/[^\x20-\x7e]/g, "?")}`;
  return headers;
}

/** The answer's document and ETag. Throws a Problem for what the server refuses, Error when it is not there. */
export async function ask(method, path, body, { etag, signal } = {}) {
  const more = {};
  if (body !== undefined) more["Content-Type"] = "application/json";
  if (etag) more["If-Match"] = etag;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: headersFor(more),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the controller does not answer");
  }
  const text = await response.text();
  let document = {};
  try {
    document = text ? JSON.parse(text) : {};
  } catch {
    document = { detail: "the answer cannot be read" };
  }
  if (!response.ok) throw new Problem(response.status, document);
  return { document, etag: response.headers.get("ETag"), link: response.headers.get("Link") };
}

export const get = async (path, options) => (await ask("GET", path, undefined, options)).document;

/** Null in the place of what is not there yet. */
export async function maybe(path, options) {
  try {
    return await get(path, options);
  } catch (error) {
    if (error instanceof Problem && (error.status === 503 || error.status === 404)) return null;
    throw error;
  }
}

/** Events as they come. `heard(kind, data)`; `state("live" | "waiting" | "refused")`. Returns a function that ends it. */
export function events(query, heard, state) {
  const ended = new AbortController();
  let last = null;
  let wait = 1000;
  (async () => {
    while (!ended.signal.aborted) {
      try {
        const headers = headersFor({ Accept: "text/event-stream" });
        if (last) headers["Last-Event-ID"] = last;
        const response = await fetch(`/v1/events${query}`, {
          headers,
          signal: ended.signal,
          cache: "no-store",
        });
        if (response.status === 401 || response.status === 403) {
          state("refused");
          return;
        }
        if (!response.ok) throw new Error(`status ${response.status}`);
        state("live");
        wait = 1000;
        await read(response.body, (event) => {
          if (event.id) last = event.id;
          if (event.data) heard(event.kind, JSON.parse(event.data));
        });
      } catch (error) {
        if (ended.signal.aborted) return;
      }
      state("waiting");
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, 15000);
    }
  })();
  return () => ended.abort();
}

async function read(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const event = { kind: "message", data: "" };
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.kind = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      rest = rest.slice(end + 2);
      heard(event);
    }
  }
}
