// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// cliConfig is the CLI configuration of a run, as okara cli-config writes it. It is
// parsed before it is stored: a warning about it would break the run (T11).
func (a *Access) cliConfig(token string) ([]byte, error) {
	base, host := a.o.FrontEnd.String(), a.o.Hostname
	var b strings.Builder
	if a.o.FrontEnd.Scheme == "http" || a.o.FrontEnd.Path != "" || host != a.o.FrontEnd.Host {
		fmt.Fprintf(&b, "host %q {\n  services = {\n    \"modules.v1\"   = %q\n    \"providers.v1\" = %q\n  }\n}\n", host, base+"/v1/modules/", base+"/v1/providers/")
	}
	hosts := []string{host, a.o.FrontEnd.Host} // for the mirror it is the name in its URL that counts
	slices.Sort(hosts)
	for _, h := range slices.Compact(hosts) {
		fmt.Fprintf(&b, "credentials %q {\n  token = %q\n}\n", h, token)
	}
	if a.o.FrontEnd.Scheme == "https" { // the tools want https for it
		fmt.Fprintf(&b, "provider_installation {\n  network_mirror {\n    url     = %q\n    exclude = [%q]\n  }\n  direct {}\n}\n", base+"/mirror/", host+"/*/*")
	}
	if _, wrong := syntax.Parse([]byte(b.String()), keyConfig); wrong.HasErrors() {
		return nil, fmt.Errorf("the CLI configuration of runs is none: %s", wrong[0].Summary) // the cause would quote the token
	}
	return []byte(b.String()), nil
}
