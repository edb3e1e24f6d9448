// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/oci"
)

// The clouds whose registries have names of their own.
const (
	AWS    = "aws"
	Azure  = "azure"
	Google = "google"
)

// Cloud returns the cloud of a registry, "" for none.
func Cloud(host string) string {
	switch {
	case host == "public.ecr.aws", isECR(host):
		return AWS
	case host == "gcr.io", hasSuffix(host, ".gcr.io", ".pkg.dev"):
		return Google
	case hasSuffix(host, ".azurecr.io", ".azurecr.cn", ".azurecr.us"):
		return Azure
	}
	return ""
}

// cloudHelpersFor returns the usual helpers of the cloud of a host, which read that cloud's files.
func cloudHelpersFor(host string) []string {
	return map[string][]string{AWS: {"ecr-login"}, Google: {"gcloud", "gcr"}, Azure: {"acr-env"}}[Cloud(host)]
}

// isECR recognises ACCOUNT.dkr.ecr.REGION.amazonaws.com; other names there are other services.
func isECR(host string) bool {
	_, rest, ok := strings.Cut(host, ".dkr.")
	return ok && (strings.HasPrefix(rest, "ecr.") || strings.HasPrefix(rest, "ecr-fips.")) &&
		hasSuffix(host, ".amazonaws.com", ".amazonaws.com.cn")
}

func hasSuffix(s string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(s, suffix) })
}

// cloudSource returns a host's installed cloud helpers, weak entries for unconfigured users.
func (r *Resolver) cloudSource(host string) source {
	s := source{class: classHelper, name: "cloud helper", location: "PATH"}
	for _, name := range cloudHelpersFor(host) {
		if _, err := r.program(name).findProgram(); err == nil {
			s.entries = append(s.entries, entry{raw: host, key: key{host: host}, weak: true, helper: name})
		}
	}
	s.missing = len(s.entries) == 0
	return s
}

// Identity logs in at a registry as the workload that this program is, and says until when that is
// valid, unless the credential itself does. The credential is zero if the machine is no workload of the registry's cloud.
type Identity func(ctx context.Context, host string) (oci.Credential, time.Time, error)

// identitySources returns the workload's identity, a weak entry of the hosts of clouds.
func (r *Resolver) identitySources(host string) []source {
	if r.o.Identity == nil || Cloud(host) == "" {
		return nil
	}
	login := entry{raw: host, key: key{host: host}, weak: true, ident: true}
	return []source{{class: classEnvironment, name: "workload identity", location: "the cloud that this program runs in", entries: []entry{login}}}
}

// askIdentity logs in. A failure is repeated soon: a server outlives it.
func (r *Resolver) askIdentity(ctx context.Context, host string) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, r.o.HelperTimeout)
	defer cancel()
	a.cred, a.expires, a.err = r.o.Identity(ctx, host)
	switch {
	case a.err != nil:
		a.expires = r.o.Now().Add(expiryMargin + minHelperAge)
	case a.cred == (oci.Credential{}):
		a.err = errNoEntry
	case a.expires.IsZero():
		a.expires = readExpiry(a.cred)
	}
	return a
}
