// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/depot"
)

// maxAgent bounds what a client says about itself in a record.
const maxAgent = 256

// known tells who asks, as [server.caller] does, and records a refusal.
func (s *server) known(r *http.Request, action, kind, address string) (caller, error) {
	c, err := s.caller(r)
	if err != nil {
		s.decided(r, caller{mode: "refused"}, action, kind, address, "")
	}
	return c, err
}

// decided records a decision: who wanted to do what, and which rule let them
// or that none did. No token and no link is in the record.
func (s *server) decided(r *http.Request, c caller, action, kind, address, rule string) {
	decision := "allowed"
	if rule == "" {
		decision = "denied"
	}
	s.metrics.auth.WithLabelValues(c.mode, decision).Inc()
	if s.o.Audit == nil {
		return
	}
	s.o.Audit.LogAttrs(r.Context(), slog.LevelInfo, "decision",
		slog.String("request_id", r.Header.Get(requestID)),
		slog.String("action", action), slog.String("kind", kind), slog.String("address", address), slog.String("version", r.PathValue("version")),
		slog.String("decision", decision), slog.String("rule", rule),
		slog.String("mode", c.mode), slog.String("subject", c.subject), slog.String("issuer", c.issuer),
		slog.String("client_ip", s.clientIP(r)), slog.String("user_agent", shorten(r.UserAgent(), maxAgent)))
}

// published records a change and its result. err is what the change returned.
func (s *server) published(r *http.Request, c caller, action, kind, address, version string, out depot.Published, err error) {
	result := "done"
	status := http.StatusCreated
	switch {
	case err != nil:
		status, _ = s.classify(publishError(err))
		result = http.StatusText(status)
	case out.Existing:
		status = http.StatusOK
	}
	if action == "publish" {
		s.metrics.publish.WithLabelValues(kind, result).Inc()
	}
	if s.o.Audit == nil {
		return
	}
	s.o.Audit.LogAttrs(r.Context(), slog.LevelInfo, "change",
		slog.String("request_id", r.Header.Get(requestID)),
		slog.String("action", action), slog.String("kind", kind), slog.String("address", address),
		slog.String("version", version), slog.String("digest", out.Digest),
		slog.String("decision", "allowed"), slog.String("rule", c.rule),
		slog.String("mode", c.mode), slog.String("subject", c.subject), slog.String("issuer", c.issuer),
		slog.String("client_ip", s.clientIP(r)), slog.String("user_agent", shorten(r.UserAgent(), maxAgent)), slog.Int("status", status))
}

// clientIP is the address of the client: that of the connection, or, if a
// listed proxy made it, the last one in X-Forwarded-For that is no such proxy.
func (s *server) clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if !s.proxy(host) {
		return host
	}
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(forwarded) {
		if hop = strings.TrimSpace(hop); hop == "" || !s.proxy(host) {
			break
		}
		host = hop
		if ap, err := netip.ParseAddrPort(hop); err == nil { // some proxies add the port
			host = ap.Addr().String()
		}
	}
	return host
}

func (s *server) proxy(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(s.o.Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}
