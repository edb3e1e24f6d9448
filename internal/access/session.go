// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"net/http"
	"strings"
	"time"
)

// Sessions lets browsers stay logged in: the pages know their callers by cookies.
// Nothing is stored: what a cookie says is sealed.
type Sessions struct {
	Keyring *Keyring // of its own: who has it can be anybody on the pages, and nobody elsewhere
	Path    string   // below which a proxy serves okara; "": it has the host for itself
	Plain   bool     // browsers of this machine come without TLS
}

const cookieName = "okara"

// Sessions are what browsers are logged in by; nil: they are not.
func (g *Guard) Sessions() *Sessions { return g.o.Sessions }

// Cookie is one that only this server reads, and the browser only sends to it: "" for
// the session, a name for anything else. A negative age takes it back.
func (s *Sessions) Cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: s.name(r), Value: value, Path: s.Path + "/", HttpOnly: true, Secure: !s.Plain, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second)}
	if name != "" {
		c.Name += "-" + name
	}
	if age < 0 {
		c.MaxAge = -1
	}
	return c
}

// name is that of the cookie of a session. The prefix is a promise of the browser: who
// set such a cookie had TLS and, with __Host-, this very host. A server without TLS on
// a loopback address has its port in the name, because browsers send the cookies of
// one port to all of them.
func (s *Sessions) name(r *http.Request) string {
	switch {
	case s.Plain:
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			if _, port, err := net.SplitHostPort(local.String()); err == nil {
				return cookieName + "-" + port
			}
		}
		return cookieName
	case strings.Trim(s.Path, "/") != "":
		return "__Secure-" + cookieName
	}
	return "__Host-" + cookieName
}
