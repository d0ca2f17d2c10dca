// Whole numbers below 2⁵³, as package limit of the Go module counts with them.
// Instants and spans are microseconds.

// MAX_TERM bounds products and spans; sums of up to four of them stay exact.
export const MAX_TERM = 2 ** 51;

// MAX_NUMBER is the largest number, and the largest cost.
export const MAX_NUMBER = Number.MAX_SAFE_INTEGER;

// TOLERANCE is how far a clock may jump back without one extra unit being admitted.
// State further ahead than that means that the clock was set back; it is corrected
// to "all used now".
export const TOLERANCE = 60_000_000;

// floorDiv is ⌊a/b⌋ for a ≥ 0 and b ≥ 1. A quotient of numbers below 2⁵³ is never
// rounded up to the next whole number.
export function floorDiv(a, b) {
  return Math.floor(a / b);
}

// ceilDiv is ⌈a/b⌉ for a ≥ 0 and b ≥ 1.
export function ceilDiv(a, b) {
  return Math.floor(a / b) + (a % b > 0 ? 1 : 0);
}

// gcd is the greatest common divisor of two positive numbers.
export function gcd(a, b) {
  while (b !== 0) {
    [a, b] = [b, a % b];
  }
  return a;
}
