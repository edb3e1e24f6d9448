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
	moreName   = "2" // of the cookie with the rest of a session

	// maxCookie is how much of a session is in one cookie. Browsers take 4 KiB with
	// name and attributes (RFC 6265, section 6.1).
	maxCookie = 3584
)

// Cookie is one that only this server reads, and the browser only sends to it: "" for
// the session, a name for anything else. A negative age takes it back.
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

// name is that of a cookie. The prefix is a promise of the browser: who set such a
// cookie had TLS and, with __Host-, this very host. A server without TLS on a loopback
// address has its port in the name, because browsers send the cookies of one port to
// all of them: the one that the browser asked, which is another one's where a replica
// forwards the request to the leader.
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

// askedPort is the port in the address that a browser asked, or that its connection
// came to; "" if neither is known.
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

// read returns the sealed session of a request. Two cookies of one name are none: one
// of them was set by another path or another host of the domain.
func (s *Sessions) read(r *http.Request) (sealed string, ok bool) {
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

// cookies holds a sealed session for so long.
func (s *Sessions) cookies(r *http.Request, sealed string, age time.Duration) ([]*http.Cookie, error) {
	if len(sealed) > 2*maxCookie {
		return nil, &Refusal{Status: http.StatusForbidden, Text: "what the issuer says of you is more than two cookies hold: it has to send fewer groups or claims"}
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

// Forget takes back the cookies of the session that a request has; nil: it has none.
func (s *Sessions) Forget(r *http.Request) []*http.Cookie {
	var all []*http.Cookie
	for _, name := range []string{"", moreName} {
		if len(r.CookiesNamed(s.name(r, name))) > 0 {
			all = append(all, s.Cookie(r, name, "", -1))
		}
	}
	return all
}
