// @ts-check
// The public API, as any client uses it: JSON, the session's cookie, and the token that shows that a page of ours asks.
import { root, said } from "./page.js";

/** A problem document as an error. */
export class Refused extends Error {
  /** @param {{title?: string, detail?: string, hint?: string, code?: string, field?: string, status?: number}} problem */
  constructor(problem) {
    super([problem.field ? `${problem.field}: ${problem.detail}` : problem.detail ?? problem.title ?? "The server did not answer.", problem.hint].filter(Boolean).join(" "));
    this.problem = problem;
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {string} [reason]
 * @param {Record<string, string>} [more] headers
 * @returns {Promise<any>}
 */
export async function ask(method, path, body, reason, more = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "X-CSRF-Token": said("csrf-token"), ...more };
  if (reason) headers["Duly-Reason"] = encodeURIComponent(reason);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(root + path, { method, headers, body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new Refused({ title: "The server cannot be reached.", detail: "The server cannot be reached. Nothing was changed as far as this page knows." });
  }
  const text = await answer.text();
  const content = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : null;
  if (!answer.ok) throw new Refused(content ?? { title: `The server answered ${answer.status}.` });
  return content;
}
