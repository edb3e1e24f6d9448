// SPDX-License-Identifier: Apache-2.0

package addr

import (
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Provider is the address of a provider. Hostname is "" for one that okara publishes; of a mirrored
// one it is the origin's host in punycode, with ":port" if that is not 443.
type Provider struct{ Hostname, Namespace, Type string }

// ParseProvider parses "namespace/type" or "host[:port]/namespace/type". Letters
// are lower-cased, as the clients do; the error is a [*SyntaxError].
func ParseProvider(s string) (Provider, error) {
	parts := strings.Split(s, "/")
	var p Provider
	switch len(parts) {
	case 2:
		p.Namespace = parts[0]
		p.Type = parts[1]
	case 3:
		host, err := parseHost(parts[0])
		if err != nil {
			return Provider{}, err
		}
		p.Hostname = host
		p.Namespace = parts[1]
		p.Type = parts[2]
	default:
		return Provider{}, syntaxError("provider", s, "must be [HOST/]NAMESPACE/TYPE")
	}
	p.Namespace = strings.ToLower(p.Namespace)
	p.Type = strings.ToLower(p.Type)
	if err := checkPart("provider namespace", p.Namespace, dashRule()); err != nil {
		return Provider{}, err
	}
	if err := checkPart("provider type", p.Type, dashRule()); err != nil {
		return Provider{}, err
	}
	return p, nil
}

// String returns namespace/type, preceded by the host if there is one.
func (p Provider) String() string {
	if p.Hostname == "" {
		return p.Namespace + "/" + p.Type
	}
	return p.Hostname + "/" + p.Namespace + "/" + p.Type
}

// parseHost returns the host in punycode and lower case, without port 443, as clients do.
func parseHost(s string) (string, error) {
	const what = "provider host"
	name, port, hasPort := strings.Cut(s, ":")
	ascii, err := idna.Lookup.ToASCII(name)
	if again, err2 := idna.Lookup.ToASCII(ascii); err != nil || err2 != nil || again != ascii { // some code points do not survive the round trip
		return "", syntaxError(what, s, "not a host name")
	}
	if p := (alphabet{"-.", `only letters, digits and "-" or "." between them are allowed`}).whyInvalid(ascii); p != "" {
		return "", syntaxError(what, s, "%s", p)
	}
	if !hasPort {
		return ascii, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", syntaxError(what, s, "port %q is not a number from 1 to 65535", port)
	}
	if n == 443 {
		return ascii, nil
	}
	return ascii + ":" + port, nil
}
