package contract

import (
	"regexp"
	"unicode/utf8"
)

// textRules are the rules for text that a pattern means exactly. The patterns are understood by
// Go and by JavaScript with the flag u.
var textRules = map[string]string{
	"alpha":           "^[a-zA-Z]+$",
	"alphaspace":      "^[a-zA-Z ]+$",
	"alphanum":        "^[a-zA-Z0-9]+$",
	"alphanumspace":   "^[a-zA-Z0-9 ]+$",
	"alphaunicode":    `^\p{L}+$`,
	"alphanumunicode": `^[\p{L}\p{N}]+$`,
	"numeric":         `^[-+]?[0-9]+(?:\.[0-9]+)?$`,
	"number":          "^[0-9]+$",
	"hexadecimal":     "^(0[xX])?[0-9a-fA-F]+$",
	"hexcolor":        "^#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})$",
	"uuid":            "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
	"uuid3":           "^[0-9a-f]{8}-[0-9a-f]{4}-3[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$",
	"uuid4":           "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
	"uuid5":           "^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
	"uuid7":           "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
	"ascii":           `^[\x00-\x7F]*$`,
	"printascii":      `^[\x20-\x7E]*$`,
	"md5":             "^[0-9a-f]{32}$",
	"sha256":          "^[0-9a-f]{64}$",
	"sha384":          "^[0-9a-f]{96}$",
	"sha512":          "^[0-9a-f]{128}$",
	"base64":          "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$",
	"e164":            `^\+?[1-9][0-9]{7,14}$`,
}

// textRule returns the keywords of a rule for text.
func textRule(name, param string) (schema, bool) {
	if pattern, ok := textRules[name]; ok {
		return schema{"pattern": pattern}, param == ""
	}
	if param == "" || !utf8.ValidString(param) {
		return nil, false
	}
	part := regexp.QuoteMeta(param)
	switch name {
	case "contains":
		return schema{"pattern": part}, true
	case "startswith":
		return schema{"pattern": "^" + part}, true
	case "endswith":
		return schema{"pattern": part + "$"}, true
	case "excludes":
		return schema{"not": schema{"pattern": part}}, true
	case "startsnotwith":
		return schema{"not": schema{"pattern": "^" + part}}, true
	case "endsnotwith":
		return schema{"not": schema{"pattern": part + "$"}}, true
	}
	return nil, false
}

// acceptsEmptyText reports whether the keywords of a rule accept the empty string.
func acceptsEmptyText(s schema) bool {
	for k, v := range s {
		switch k {
		case "pattern":
			if !regexp.MustCompile(v.(string)).MatchString("") {
				return false
			}
		case "minLength":
			if n, ok := v.(int64); ok && n > 0 {
				return false
			}
			if n, ok := v.(int); ok && n > 0 {
				return false
			}
		case "const":
			return v == ""
		case "enum":
			has := false
			for _, e := range v.([]any) {
				has = has || e == ""
			}
			return has
		case "not":
			not := v.(schema)
			return len(not) > 0 && !acceptsEmptyText(not)
		}
	}
	return true
}
