package origin

import (
	"fmt"
	"path"
	"strings"
)

// Patterns returns a copy of a list of hosts and patterns, each perhaps with a scheme, in
// lower case. remedy says what to do in place of an entry for all hosts.
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
		case option == "Hosts" && scheme != "" && scheme != "http" && scheme != "https":
			return nil, fmt.Errorf("router: Options.Hosts holds %q; the scheme is https or http, that of the pages", entry)
		}
		list[i] = entry
	}
	return list, nil
}

func cutScheme(pattern string) (scheme, rest string) {
	if scheme, rest, ok := strings.Cut(pattern, "://"); ok {
		return scheme, rest
	}
	return "", pattern
}
