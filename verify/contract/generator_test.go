package contract_test

import (
	"encoding"
	"encoding/base64"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// generator makes JSON near what a Go type accepts, from the type and the words and numbers in
// its tags, without knowing what they mean. Numbers are written as JavaScript writes them.
type generator struct {
	*rand.Rand
	strict bool
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, all ...T) T { return all[g.IntN(len(all))] }

func quote(s string) string {
	b, err := json.Marshal(strings.ToValidUTF8(s, "?"))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// payload is the text of a payload; empty: there is none.
func (g *generator) payload(t reflect.Type) string {
	if g.chance(3) {
		return ""
	}
	return g.value(t, "", false, 0)
}

// wrong is any JSON.
func (g *generator) wrong() string {
	return pick(g, "null", "null", "true", "false", "0", "1", "-1", "1.5", "1e+300", `""`, `"a"`, `"1"`, "[]", "[1]", "{}", `{"a":1}`)
}

func (g *generator) value(t reflect.Type, tag string, quoted bool, depth int) string {
	if g.chance(4) {
		return g.wrong()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		return quote(g.time())
	case t == reflect.TypeFor[jsontext.Value]():
		return g.wrong()
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return quote(g.text(tag))
	}
	elem := ""
	if _, after, found := strings.Cut(tag, "dive"); found {
		elem, tag = strings.TrimPrefix(after, ","), tag[:len(tag)-len(after)-len("dive")]
	}
	switch t.Kind() {
	case reflect.Pointer:
		if g.chance(15) {
			return "null"
		}
		return g.value(t.Elem(), tag+elem, quoted, depth)
	case reflect.Interface:
		return g.wrong()
	case reflect.String:
		return quote(g.text(tag))
	case reflect.Bool:
		return pick(g, "true", "false")
	case reflect.Float32, reflect.Float64:
		s := g.float(t, tag)
		if quoted {
			return quote(g.spelled(s))
		}
		return s
	case reflect.Slice, reflect.Array:
		if e := t.Elem(); e.Kind() == reflect.Uint8 && e.PkgPath() == "" {
			return quote(g.base64(t))
		}
		n := g.size(tag)
		if t.Kind() == reflect.Array && g.chance(80) {
			n = t.Len()
		}
		if depth > 2 {
			n = min(n, 1)
		}
		list := make([]string, n)
		for i := range list {
			if list[i] = g.value(t.Elem(), elem, false, depth+1); i > 0 && g.chance(15) {
				list[i] = list[g.IntN(i)]
			}
		}
		return "[" + strings.Join(list, ",") + "]"
	case reflect.Map:
		keys, rest := "", elem
		if inner, found := strings.CutPrefix(elem, "keys,"); found {
			keys, rest, _ = strings.Cut(inner, "endkeys")
		}
		var members []string
		var names []string
		for range g.size(tag) {
			name := g.text(keys)
			if t.Key().Kind() != reflect.String {
				name = g.spelled(g.integer(t.Key(), ""))
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
				members = append(members, quote(name)+":"+g.value(t.Elem(), rest, false, depth+1))
			}
		}
		return "{" + strings.Join(members, ",") + "}"
	case reflect.Struct:
		return g.object(t, depth)
	}
	s := g.integer(t, tag)
	if quoted {
		return quote(g.spelled(s))
	}
	return s
}

// object has most members of a struct, and sometimes others.
func (g *generator) object(t reflect.Type, depth int) string {
	var names, members []string
	add := func(name, value string) {
		if !slices.Contains(names, name) {
			names, members = append(names, name), append(members, quote(name)+":"+value)
		}
	}
	absent := pick(g, 5, 5, 15, 60)
	var visit func(t reflect.Type)
	visit = func(t reflect.Type) {
		for f := range t.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			switch {
			case options == "embed":
				if g.chance(50) {
					add(pick(g, "x", "y", "a"), g.value(inner.Elem(), "", false, depth+1))
				}
				continue
			case f.Anonymous && name == "":
				if inner == f.Type || g.chance(60) {
					visit(inner)
				}
				continue
			case name == "":
				name = f.Name
			}
			if depth > 4 || g.chance(absent) {
				continue
			}
			add(name, g.value(f.Type, f.Tag.Get("validate"), options == "string", depth+1))
		}
	}
	visit(t)
	if g.chance(8) {
		add(pick(g, "unknown", "a", "A", "N", "id", "ID"), g.wrong())
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

var (
	numbers = regexp.MustCompile(`-?(?:0x)?[0-9][0-9.e]*`)
	params  = regexp.MustCompile(`[^=,| ']+|'[^']*'`)
)

// near returns numbers in a tag.
func near(tag string) (all []float64) {
	for _, m := range numbers.FindAllString(tag, -1) {
		if n, err := strconv.ParseInt(m, 0, 64); err == nil {
			all = append(all, float64(n))
		} else if n, err := strconv.ParseFloat(m, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// size is a length near those in a tag.
func (g *generator) size(tag string) int {
	n := pick(g, append(near(tag), 0, 1, 2, 3)...)
	return max(0, min(12, int(n)+g.IntN(3)-1))
}

func (g *generator) integer(t reflect.Type, tag string) string {
	if g.chance(70) {
		if found := numbers.FindAllString(tag, -1); len(found) > 0 {
			if n, err := strconv.ParseInt(pick(g, found...), 0, 64); err == nil {
				return strconv.FormatInt(n+int64(g.IntN(5)-2), 10)
			}
			if u := pick(g, found...); g.chance(80) && !strings.ContainsAny(u, ".e") {
				return u
			}
		}
	}
	if g.chance(50) {
		return strconv.Itoa(g.IntN(12) - 4)
	}
	bits := t.Bits()
	lo, hi := "-"+power(bits-1, 0), power(bits-1, -1)
	if t.Kind() >= reflect.Uint {
		lo, hi = "0", power(bits, -1)
	}
	over := power(bits-1, 1)
	if t.Kind() >= reflect.Uint {
		over = power(bits, 0)
	}
	return pick(g, lo, hi, over, "-1", "0", "1.5", "-"+over, hi+"0", strconv.FormatInt(int64(g.Uint64()), 10), "-129", "128", "65536")
}

// power is 2ⁿ plus d, in decimal.
func power(n, d int) string {
	if n == 64 {
		if d < 0 {
			return "18446744073709551615"
		}
		return "1844674407370955161" + strconv.Itoa(6+d)
	}
	return strconv.FormatUint(uint64(1)<<n+uint64(int64(d)), 10)
}

// spelled is a number, or sometimes text like it.
func (g *generator) spelled(s string) string {
	if g.chance(70) {
		return s
	}
	if strings.Contains(s, "e") {
		return s // to stay within the range of a double, which no pattern can tell
	}
	return pick(g, "-0", "0", "00", "01", "+1", "1.0", "1e2", "1E+2", ".5", "1.", "-", "", " 1", "1 ", "0x1", "-"+s, s+"0", s+".5", "١", "NaN", "Infinity", "-1")
}

func (g *generator) float(t reflect.Type, tag string) string {
	n := pick(g, append(near(tag), 0, 1, -1, 0.1, 1e300, math.MaxFloat32, -math.MaxFloat32, math.MaxFloat64, 5e-324, float64(g.IntN(20))/4-2)...)
	if t.Kind() == reflect.Float32 && g.chance(30) {
		n = pick(g, math.Nextafter(0x1p128-0x1p103, 0), 0x1p128-0x1p103, 0x1p128, -(0x1p128 - 0x1p103))
	}
	switch g.IntN(3) {
	case 0:
		n = math.Nextafter(n, math.Inf(1))
	case 1:
		n = math.Nextafter(n, math.Inf(-1))
	}
	if math.IsInf(n, 0) || n == 0 {
		n = 0 // not -0, which JavaScript does not write
	}
	b, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// samples are texts that rules may accept.
var samples = []string{
	"", "a", "ab", "abc", "abcd", "Abc", "a b", "a1", "1", "12", "007", "-1.5", "+3", "1.", ".5", "0x1F", "0XfF", "ff", "g", " ", "é", "ß", "日本", "٣", "²", "🙂", "e\u0301",
	"#fff", "#FFFF", "#12345", "#123456", "#12345678", "red", "green", "light blue", "none", "rgb(1,2,3)", "true",
	"123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "a3bb189e-8bf9-3888-9912-ace4e6543002",
	"0b6b7c8e-3a1d-4c9e-9f60-1b2c3d4e5f60", "74738ff5-5367-5958-9aee-98fffdcd1876", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
	"aGVsbG8=", "aGVsbG8h", "aGVsbA==", "aGVsbA=", "aGVs bG8=", "+14155552671", "14155552671", "+0123456789", "a.b", "xa.by", "axb", "a.", ".b", "a.x.b",
	"\u0000", "\u007f", "\n", "a\n", "d41d8cd98f00b204e9800998ecf8427e", strings.Repeat("0a", 32), strings.Repeat("f9", 48), strings.Repeat("7e", 64),
}

// text is a sample, a word of the tag, or letters of a length near those in the tag; sometimes
// with a small change.
func (g *generator) text(tag string) string {
	var s string
	switch g.IntN(3) {
	case 0:
		s = pick(g, samples...)
	case 1:
		words := params.FindAllString(tag, -1)
		s = strings.Trim(pick(g, append(words, "a", "")...), "'")
	case 2:
		letters := pick(g, []rune("abc"), []rune("aB1"), []rune("0123456789"), []rune("äß日🙂"), []rune("0123456789abcdef"))
		for range g.size(tag) {
			s += string(pick(g, letters...))
		}
	}
	// Some rules accept few texts: one of theirs in every third.
	if g.chance(30) {
		for _, own := range samples {
			if rule := tag; rule != "" && accepts(rule, own) && g.chance(50) {
				s = own
			}
		}
	}
	if g.chance(25) {
		r := []rune(s)
		i := g.IntN(len(r) + 1)
		switch g.IntN(4) {
		case 0:
			r = slices.Insert(r, i, pick(g, 'a', 'Z', '0', '-', ' ', 'é', '.', '\n', '=', 'g'))
		case 1:
			r = slices.Delete(r, min(i, max(0, len(r)-1)), min(i+1, len(r)))
		case 2:
			r = []rune(strings.ToUpper(s))
		case 3:
			r = append(r, r...)
		}
		s = string(r)
	}
	return s
}

func (g *generator) base64(t reflect.Type) string {
	n := g.IntN(7)
	if t.Kind() == reflect.Array && g.chance(80) {
		n = t.Len()
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	enc := pick(g, base64.StdEncoding, base64.StdEncoding, base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding)
	s := enc.EncodeToString(b)
	if g.chance(20) {
		i := g.IntN(len(s) + 1)
		s = s[:i] + pick(g, "\n", "=", "A", "-", "_", " ", "é") + s[i:]
	}
	if g.chance(10) && len(s) > 2 { // bits that are not used
		s = strings.Replace(s, "A=", "B=", 1)
	}
	return s
}

func (g *generator) time() string {
	two := func(values ...int) string {
		s := strconv.Itoa(pick(g, values...))
		if len(s) < 2 && g.chance(97) {
			s = "0" + s
		}
		return s
	}
	if g.chance(10) {
		return pick(g, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00+00:00", "0001-01-01T00:00:01Z", "", "now", "2026-11-22")
	}
	year := pick(g, "2026", "2024", "1900", "2000", "0000", "0004", "9999", "12345", "999")
	s := year + "-" + two(0, 1, 2, 2, 2, 4, 6, 11, 12, 13) + "-" + two(0, 1, 28, 29, 29, 30, 31, 32) + pick(g, "T", "T", "T", "T", "t", " ")
	s += two(0, 9, 23, 24) + ":" + two(0, 59, 59, 60) + ":" + two(0, 1, 59, 59, 60)
	s += pick(g, "", "", ".5", ".123456789", ".1234567890123", ".", ",5")
	return s + pick(g, "Z", "Z", "Z", "z", "+00:00", "-08:30", "+23:59", "+24:00", "+01:60", "+1:00", "", "+0100")
}
