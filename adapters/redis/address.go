package redis

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// An address may hold a password, also where it does not belong: unescaped, it ends up in
// the path, in the name of a parameter or behind it. So no error repeats any of these.

// parseAddress takes an address apart. The hosts are those between commas and those of
// the parameters "addr", which the URL then has no more.
func parseAddress(address string) (u *url.URL, hosts []string, err error) {
	if strings.Contains(address, "#") {
		return nil, nil, errors.New("the address has a '#': in a password, write %23")
	}
	u, err = url.Parse(address)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" || u.Opaque != "" {
		return nil, nil, errors.New("the address is no URL such as redis://localhost:6379")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, errors.New("the parameters of the address are not a query: in a password, write % as %25")
	}
	hosts = append(strings.Split(u.Host, ","), q["addr"]...)
	q.Del("addr")
	u.RawQuery = q.Encode()
	if slices.Contains(hosts[1:], "") {
		return nil, nil, errors.New("the address has an empty host among several")
	}
	return u, hosts, nil
}

// at is the URL with other hosts: the first in its place, the others as parameters.
func at(u *url.URL, hosts ...string) string {
	there := *u
	there.Host = hosts[0]
	q := there.Query()
	if len(hosts) > 1 {
		q["addr"] = hosts[1:]
	}
	there.RawQuery = q.Encode()
	return there.String()
}

// complaint is an error that says which part of a URL parse refuses.
func complaint(u *url.URL, parse func(string) error) error {
	bare := url.URL{Scheme: u.Scheme, Host: "localhost", Path: u.Path}
	if parse(bare.String()) != nil {
		return errors.New("the path of the address is no number of a database: in a password, write / as %2F")
	}
	if u.Scheme != "unix" {
		bare.Path = ""
	}
	q := u.Query()
	for _, name := range slices.Sorted(maps.Keys(q)) {
		bare.RawQuery = url.Values{name: q[name]}.Encode()
		err := parse(bare.String())
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "unexpected option"):
			return errors.New("the address has a parameter that there is not: in a password, write ? as %3F and & as %26")
		default:
			return fmt.Errorf("the parameter %s of the address has no value that it may have", name)
		}
	}
	return errors.New("the hosts of the address are not host:port")
}
