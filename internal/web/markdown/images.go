// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// maxImageHosts bounds the content security policy, which is sent with each page.
const maxImageHosts = 32

// hostPattern is a host name (RFC 1123, section 2.1), with "*." in front for all names
// below it, and optionally a port: a valid source of a Content-Security-Policy. IP
// addresses are excluded, since browsers do not accept them there.
var hostPattern = text.Pattern(`^(\*\.)?((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)(:[1-9][0-9]{0,4})?$`)

// ImageHosts are other hosts whose images pages show, as in a content security policy.
type ImageHosts []string

// CheckImageHosts returns an error for an invalid pattern of [ImageHosts].
func CheckImageHosts(patterns []string) error {
	if len(patterns) > maxImageHosts {
		return fmt.Errorf("%d image hosts; at most %d", len(patterns), maxImageHosts)
	}
	for _, p := range patterns {
		found := hostPattern().FindStringSubmatch(strings.ToLower(p))
		if len(p) > 253 || found == nil {
			return fmt.Errorf("%q is not an image host: use HOST, *.DOMAIN or HOST:PORT, without a scheme or a path", p)
		}
		if found[1] != "" && !strings.Contains(found[2], ".") {
			return fmt.Errorf("%q allows images from any host under %s: list the hosts", p, found[2])
		}
	}
	return nil
}

// Policy returns the hosts as sources of a content security policy.
func (h ImageHosts) Policy() (all []string) {
	for _, p := range h {
		all = append(all, "https://"+strings.ToLower(p))
	}
	return all
}

// hasHost reports whether an image may be shown: only with https, as in the policy.
func (h ImageHosts) hasHost(u *url.URL) bool {
	if u.Scheme != "https" || u.User != nil {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":443")
	for _, p := range h {
		p = strings.TrimSuffix(strings.ToLower(p), ":443")
		if domain, all := strings.CutPrefix(p, "*"); all && strings.HasSuffix(host, domain) && len(host) > len(domain) || host == p {
			return true
		}
	}
	return false
}

// sourcePattern matches the addresses of images that may remain in an untrusted text.
func (h ImageHosts) sourcePattern() *regexp.Regexp {
	var own strings.Builder
	own.WriteString(`^\./(\.\./)*(modules|providers|mirror)/[^?#]*\?raw=1$`)
	for _, p := range h {
		name, port, _ := strings.Cut(strings.TrimSuffix(strings.ToLower(p), ":443"), ":")
		if domain, all := strings.CutPrefix(name, "*."); all {
			name = `[a-z0-9.-]+\.` + regexp.QuoteMeta(domain)
		} else {
			name = regexp.QuoteMeta(name)
		}
		if port != "" {
			name += ":" + port
		}
		own.WriteString(`|^(?i:https://` + name + `)([/?][^#]*)?$`)
	}
	return regexp.MustCompile(own.String())
}

// imageURL returns the address of an image that may be shown from its host; "" if it may not.
func (h ImageHosts) imageURL(src string) string {
	u, err := url.Parse(src)
	if err != nil || !h.hasHost(u) {
		return ""
	}
	return u.String()
}
