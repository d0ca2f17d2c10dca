// HalfSipHash-2-4 with 32 bits of output (Aumasson and Bernstein,
// https://github.com/veorq/SipHash): a keyed hash, to choose one of a few objects.
// Without the key it cannot be computed which keys have the same object.

const rotate = (x, n) => (x << n) | (x >>> (32 - n));

function rounds(v, n) {
  for (; n > 0; n--) {
    v[0] += v[1];
    v[1] = rotate(v[1], 5) ^ v[0];
    v[0] = rotate(v[0], 16);
    v[2] += v[3];
    v[3] = rotate(v[3], 8) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 7) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 13) ^ v[2];
    v[2] = rotate(v[2], 16);
  }
}

// halfSipHash hashes bytes with a key of two 32-bit words.
export function halfSipHash(bytes, [k0, k1]) {
  const v = Uint32Array.of(k0, k1, 0x6c796765 ^ k0, 0x74656462 ^ k1);
  const absorb = (word) => {
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
  };
  const whole = bytes.length - (bytes.length % 4);
  for (let i = 0; i < whole; i += 4) {
    absorb(bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24));
  }
  let last = bytes.length << 24;
  for (let i = whole; i < bytes.length; i++) {
    last |= bytes[i] << (8 * (i - whole));
  }
  absorb(last);
  v[2] ^= 0xff;
  rounds(v, 4);
  return (v[1] ^ v[3]) >>> 0;
}
