package origin

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Patterns returns a copy of a list of hosts and patterns, each perhaps with a scheme, in lower case. An entry that the
// request of no browser can match is an error. remedy says what to do in place of an entry for all hosts.
func Patterns(option string, list []string, remedy string) ([]string, error) {
	list = append([]string(nil), list...)
	for i, entry := range list {
		entry = strings.ToLower(strings.TrimSuffix(entry, "/"))
		scheme, host := cutScheme(entry)
		switch _, err := path.Match(host, ""); {
		case host == "*" && scheme == "" || host == "":
			return nil, fmt.Errorf("router: Options.%s holds %q; %s", option, entry, remedy)
		case strings.Contains(host, "/"):
			return nil, fmt.Errorf("router: Options.%s holds %q; an entry has no path: leave it out", option, entry)
		case err != nil:
			return nil, fmt.Errorf("router: Options.%s holds the malformed pattern %q", option, entry)
		case option == "Origins" && entry == "null":
			return nil, fmt.Errorf("router: Options.Origins holds %q, which a page of any site can send; serve the page over https and list its host", entry)
		case !isASCII(host):
			return nil, fmt.Errorf("router: Options.%s holds %q; browsers send such a name in its ASCII form: write that, it begins with xn--", option, entry)
		case strings.ContainsAny(host, "@# \t"):
			return nil, fmt.Errorf("router: Options.%s holds %q; an entry is a host, with a port or a scheme at most", option, entry)
		case option == "Origins" && (scheme == "ws" || scheme == "wss"):
			return nil, fmt.Errorf("router: Options.Origins holds %q; an origin has the scheme of the page, https or http", entry)
		case option == "Origins" && (scheme == "https" && strings.HasSuffix(host, ":443") || scheme == "http" && strings.HasSuffix(host, ":80")):
			return nil, fmt.Errorf("router: Options.Origins holds %q; browsers leave out the port of the scheme: do the same", entry)
		case option == "Handshake.Hosts" && scheme != "" && scheme != "http" && scheme != "https":
			return nil, fmt.Errorf("router: Options.Handshake.Hosts holds %q; the scheme is https or http, that of the pages", entry)
		}
		list[i] = entry
	}
	return list, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

func cutScheme(pattern string) (scheme, rest string) {
	if scheme, rest, ok := strings.Cut(pattern, "://"); ok {
		return scheme, rest
	}
	return "", pattern
}
