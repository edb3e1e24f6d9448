// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/netaddr"
	"github.com/seed-141914ff/okara/internal/service"
)

// publicURL is [Options.reachedURL], or public_url if it is set.
func (o Options) publicURL(r *http.Request) string {
	if o.PublicURL != "" {
		return strings.TrimSuffix(o.PublicURL, "/")
	}
	return o.reachedURL(r)
}

// reachedURL returns the URL by which the client reached this server, without a slash at the end:
// over TLS, through a listed proxy that says how, or on this machine. It is "" for plain http over
// a network, and after an unlisted proxy, which may have changed the name. The host is what the
// client sent: an answer with it is for this client alone. A replica that forwards signs how it was
// reached.
func (o Options) reachedURL(r *http.Request) string {
	if hop := strings.Fields(r.Header.Get(service.HopHeader)); len(hop) > 0 {
		if len(hop) != 3 || !o.Options.Keys.Verify(hopPurpose, hop[1], hop[2], hop[0]) {
			return ""
		}
		return hop[0]
	}
	scheme := o.Kit.Guard.Scheme(r)
	at := url.URL{Scheme: scheme, Host: o.Kit.Guard.Host(r), Path: strings.TrimSuffix(o.BasePath, "/")}
	if scheme == "" && o.Local && !o.Kit.Guard.IsProxied(r) && netaddr.IsLoopback(at.Hostname()) {
		at.Scheme = "http"
	}
	if at.Scheme == "" || at.Host == "" || strings.Contains(at.Host, ",") || isForwarded(r) && !o.Kit.Guard.IsProxied(r) {
		return ""
	}
	if u, err := url.Parse(at.String()); err != nil || u.Host != at.Host || u.User != nil {
		return ""
	}
	return at.String()
}

const hopPurpose = "hop"

// signAddress returns the value of [service.HopHeader] for another replica.
func (o Options) signAddress(r *http.Request) string {
	at := o.reachedURL(r)
	if at == "" {
		return "1"
	}
	id, signature := o.Options.Keys.Sign(hopPurpose, at)
	return at + " " + id + " " + signature
}

// forwarded are the headers in which proxies say whom they forward, and by which name.
var forwarded = [...]string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// isForwarded reports whether a request looks like a proxy's. Some show by HTTP/1.0 alone.
func isForwarded(r *http.Request) bool {
	return !r.ProtoAtLeast(1, 1) || slices.ContainsFunc(forwarded[:], func(name string) bool { return r.Header.Get(name) != "" })
}

// addressLimits returns which programs cannot use the addresses in answers, for the log.
func (s *Settings) addressLimits(o Options) (limits []string) {
	if s.PublicURL == "" && !o.Local && len(o.Proxies) == 0 && s.TLS.Cert == "" && !s.TLS.SelfSigned {
		limits = append(limits, "without public_url, tls and proxies this server does not know its address and sends relative ones: OpenTofu and Terraform follow them, Terragrunt's provider cache, Renovate and Trivy do not")
	}
	if s.BasePath != "" {
		limits = append(limits, "with base_path only programs that use the discovery document find modules and providers: Trivy 0.72 and tfupdate do not")
	}
	return limits
}
