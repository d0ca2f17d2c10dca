// Asks the server. Each answer has that of each process, and the processes that did not answer.

const KEY = "wskit.inspect.token";

// A token behind # is not sent with the address of the page. It is kept for this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage[KEY] = given;
  history.replaceState(null, "", `${location.pathname}${location.search}#overview`);
}

/** The server refuses requests without a login. login is the address of a page for that, or "". */
export class Refused extends Error {
  constructor(login) {
    super("Not logged in");
    this.login = login;
    this.hadToken = KEY in sessionStorage;
  }
}

export function setToken(token) {
  sessionStorage[KEY] = token;
}

const authorization = () => (sessionStorage[KEY] ? { Authorization: `Bearer ${sessionStorage[KEY]}` } : {});

async function call(path, options) {
  const response = await fetch(path, { ...options, headers: { ...authorization(), ...options?.headers } });
  if (response.status === 401) throw new Refused(response.headers.get("Wskit-Login") ?? "");
  if (!response.ok) throw new Error((await response.text()).trim() || `The server answers ${response.status}.`);
  return response.json();
}

export const ask = (query, values = {}) => call(`api/${query}?${new URLSearchParams(values)}`);

export const act = (action, values) =>
  call(`api/${action}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(values),
  });
