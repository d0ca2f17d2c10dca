const encoder = new TextEncoder();

// admits reports whether a request has the secret as a bearer token. If the secret is
// not set or empty, no request has. The comparison takes constant time: digests have
// equal length.
export async function admits(request, secret) {
  if (typeof secret !== "string" || secret === "") {
    return false;
  }
  const [, token] = /^Bearer (.+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
  if (token === undefined) {
    return false;
  }
  const [a, b] = await Promise.all([token, secret].map((text) => crypto.subtle.digest("SHA-256", encoder.encode(text))));
  return crypto.subtle.timingSafeEqual(a, b);
}
