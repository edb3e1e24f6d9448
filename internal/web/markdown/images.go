// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

// maxImageHosts bounds the policy of a page, which goes with each of them.
const maxImageHosts = 32

// hostPattern is a name of a host (RFC 1123, section 2.1), for all below it with "*."
// before, and maybe a port: what a source of a Content-Security-Policy may be, without
// addresses, which browsers do not take there.
var hostPattern = text.Pattern(`^(\*\.)?((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?)(:[1-9][0-9]{0,4})?$`)

// ImageHosts are other hosts whose images pages show, as policies of content name them.
type ImageHosts []string

// CheckImageHosts reports what is no pattern of [Options].ImageHosts.
func CheckImageHosts(patterns []string) error {
	if len(patterns) > maxImageHosts {
		return fmt.Errorf("%d hosts of images; at most %d", len(patterns), maxImageHosts)
	}
	for _, p := range patterns {
		found := hostPattern().FindStringSubmatch(strings.ToLower(p))
		if len(p) > 253 || found == nil {
			return fmt.Errorf("%q is not a host of images: HOST, *.DOMAIN or HOST:PORT, without a scheme or a path", p)
		}
		if found[1] != "" && !strings.Contains(found[2], ".") {
			return fmt.Errorf("%q lets images come from everywhere below %s: name the hosts", p, found[2])
		}
	}
	return nil
}

// Policy is what a policy of content names of them.
func (h ImageHosts) Policy() (all []string) {
	for _, p := range h {
		all = append(all, "https://"+strings.ToLower(p))
	}
	return all
}

// has reports whether an image may be shown: only https, as the policy has it.
func (h ImageHosts) has(u *url.URL) bool {
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

// sources are the addresses of images that are left of a text of others.
func (h ImageHosts) sources() *regexp.Regexp {
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

// of is the address of an image that may be shown as it is written; "": it may not.
func (h ImageHosts) of(src string) string {
	u, err := url.Parse(src)
	if err != nil || !h.has(u) {
		return ""
	}
	return u.String()
}
