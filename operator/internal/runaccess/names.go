// SPDX-License-Identifier: Apache-2.0

package runaccess

import (
	"net/url"
	"strings"

	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// Names of what is made for a run.
func (r Run) secret() string   { return r.Name + "-okara-run" }
func (r Run) pull() string     { return r.Name + "-okara-pull" }
func (r Run) config() string   { return r.Name + "-okara-cli" }
func (r Run) caBundle() string { return r.Name + "-okara-ca" }

// Where says how runs reach okara serve and their modules.
type Where struct {
	FrontEnd *url.URL // without a slash at its end
	Cluster  string   // which names the states
	CA       bool     // okara serve has an authority of its own
	Pull     bool     // the operator has a pull Secret
}

// Names is what [Access.Prepare] makes for a run, but for what only the cluster knows. It
// is pure.
func (w Where) Names(r Run) Ready {
	ready := Ready{State: fluxexec.State{Address: w.address(r), TokenSecret: r.secret()}, CLIConfigSecret: r.config()}
	// Where tenants read Secrets none of the operator's may be.
	if w.within(r) || w.Pull && r.Home != r.Namespace {
		ready.PullSecret = r.pull()
	}
	if w.CA {
		ready.State.CA = &fluxexec.CAFrom{ConfigMap: r.caBundle(), Key: keyCA}
		if w.within(r) {
			ready.CASecret = r.caBundle()
		}
	}
	return ready
}

// within reports whether the module of a run lies in okara serve.
func (w Where) within(r Run) bool {
	host, _, _ := strings.Cut(r.Repository, "/")
	return host == w.FrontEnd.Host
}

func (w Where) stateName(namespace string) string { return w.Cluster + "." + namespace }

func (w Where) address(r Run) string {
	return w.FrontEnd.String() + "/state/" + w.stateName(r.Namespace) + "/" + r.Workspace
}
