// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// Proxies returns the HTTP proxies of the environment as HOST:PORT. They
// usually have private addresses.
func Proxies(getenv func(string) string) []string {
	var hosts []string
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		text := getenv(name)
		if text != "" && !strings.Contains(text, "://") {
			text = "http://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			continue
		}
		port := "80"
		if u.Scheme == "https" {
			port = "443"
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	}
	return hosts
}
