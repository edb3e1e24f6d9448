// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName = "okara"
	moreName   = "2" // name of the cookie with the rest of a session

	// maxCookie bounds the value of a cookie, in bytes. Browsers accept 4 KiB including
	// name and attributes (RFC 6265, section 6.1).
	maxCookie = 3584
)

// Cookie returns a cookie for this server alone, hidden from scripts; name "" is the session's. A
// negative age deletes it.
func (s *Sessions) Cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: s.name(r, name), Value: value, Path: strings.TrimSuffix(s.Path, "/") + "/",
		HttpOnly: true, Secure: !s.Plain, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second),
	}
	if age < 0 {
		c.MaxAge = -1
	}
	return c
}

// name returns a cookie's full name. By its prefix browsers guarantee TLS and, with __Host-, this
// very host. On loopback without TLS it contains the port that the browser used, since browsers
// send cookies to all ports.
func (s *Sessions) name(r *http.Request, name string) string {
	whole := "__Host-" + cookieName
	switch {
	case s.Plain:
		whole = cookieName
		if port := askedPort(r); port != "" {
			whole += "-" + port
		}
	case strings.Trim(s.Path, "/") != "":
		whole = "__Secure-" + cookieName
	}
	if name != "" {
		whole += "-" + name
	}
	return whole
}

// askedPort returns the port in Host, else that of the connection, or "".
func askedPort(r *http.Request) string {
	addresses := []string{r.Host}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		addresses = append(addresses, local.String())
	}
	for _, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if n, perr := strconv.ParseUint(port, 10, 16); err == nil && perr == nil && n > 0 {
			return strconv.FormatUint(n, 10)
		}
	}
	return ""
}

// readSealed returns the sealed session. Two cookies of the name count as none: one is foreign.
func (s *Sessions) readSealed(r *http.Request) (sealed string, ok bool) {
	first := r.CookiesNamed(s.name(r, ""))
	if len(first) != 1 || first[0].Value == "" {
		return "", false
	}
	if len(first[0].Value) < maxCookie {
		return first[0].Value, true
	}
	more := r.CookiesNamed(s.name(r, moreName))
	switch len(more) {
	case 0:
		return first[0].Value, true
	case 1:
		return first[0].Value + more[0].Value, true
	}
	return "", false
}

// cookies returns the cookies for a sealed session that expire after age.
func (s *Sessions) cookies(r *http.Request, sealed string, age time.Duration) ([]*http.Cookie, error) {
	if len(sealed) > 2*maxCookie {
		return nil, &Refusal{Status: http.StatusForbidden, Text: "groups and claims from the issuer do not fit in two cookies: reduce what it sends"}
	}
	first := sealed[:min(len(sealed), maxCookie)]
	all := []*http.Cookie{s.Cookie(r, "", first, age)}
	switch rest := sealed[len(first):]; {
	case rest != "":
		all = append(all, s.Cookie(r, moreName, rest, age))
	case len(r.CookiesNamed(s.name(r, moreName))) > 0:
		all = append(all, s.Cookie(r, moreName, "", -1))
	}
	return all, nil
}

// Forget returns cookies that delete those of the session in a request; nil: it has none.
func (s *Sessions) Forget(r *http.Request) []*http.Cookie {
	var all []*http.Cookie
	for _, name := range []string{"", moreName} {
		if len(r.CookiesNamed(s.name(r, name))) > 0 {
			all = append(all, s.Cookie(r, name, "", -1))
		}
	}
	return all
}
