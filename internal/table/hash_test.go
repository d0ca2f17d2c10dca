package table

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// A change of any bit of a key changes every bit of its hash half of the time, at
// every length.
func TestHashAvalanche(t *testing.T) {
	const trials = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	s := newSecrets()
	for _, n := range []int{3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 100} {
		var flips [128]int
		for range trials {
			key := make([]byte, n)
			for i := range key {
				key[i] = byte(rng.Uint32())
			}
			before := s.hash(key)
			key[rng.IntN(n)] ^= 1 << rng.IntN(8)
			after := s.hash(key)
			for i := range 64 {
				flips[i] += int((before.a ^ after.a) >> i & 1)
				flips[64+i] += int((before.b ^ after.b) >> i & 1)
			}
		}
		for i, f := range flips {
			if f < trials*45/100 || f > trials*55/100 { // six standard deviations
				t.Errorf("length %d: bit %d flips %d times of %d", n, i, f, trials)
			}
		}
	}
}

// Similar keys have different hashes in each lane, and the lanes are independent.
func TestHashesDiffer(t *testing.T) {
	s := newSecrets()
	seenA, seenB := map[uint64]string{}, map[uint64]string{}
	agree := 0
	add := func(key string) {
		h := s.hashString(key)
		if other, ok := seenA[h.a]; ok && other != key {
			t.Fatalf("%q and %q agree in one lane", key, other)
		}
		if other, ok := seenB[h.b]; ok && other != key {
			t.Fatalf("%q and %q agree in the other lane", key, other)
		}
		seenA[h.a], seenB[h.b] = key, key
		agree += 64 - bits.OnesCount64(h.a^h.b)
	}
	for n := range 300 { // they differ in length only
		add(strings.Repeat("\x00", n))
		add(strings.Repeat("a", n+1))
	}
	for i := range 200_000 {
		add(fmt.Sprintf("user:%08d", i))
		add(fmt.Sprintf("wskit:chat:u:acme:%d:chat.send", i))
	}
	if mean := float64(agree) / float64(len(seenA)); mean < 31.9 || mean > 32.1 {
		t.Errorf("the lanes agree in %v of 64 bits on average", mean)
	}
}

// The secrets are random per process: the hashes cannot be computed from the keys.
func TestHashIsSecret(t *testing.T) {
	s, other := newSecrets(), newSecrets()
	for _, key := range []string{"", "a", "user:00000000", strings.Repeat("long", 20)} {
		if s.hashString(key) != s.hash([]byte(key)) {
			t.Errorf("%q: the string and its bytes differ", key)
		}
		if a, b := s.hashString(key), other.hashString(key); a.a == b.a || a.b == b.b {
			t.Errorf("%q has one hash under different secrets", key)
		}
	}
}
