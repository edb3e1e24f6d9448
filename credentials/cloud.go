// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"slices"
	"strings"
)

// cloudHelpersFor returns the usual helpers of the cloud of a host, which read that cloud's files.
func cloudHelpersFor(host string) []string {
	switch {
	case host == "public.ecr.aws", isECR(host):
		return []string{"ecr-login"}
	case host == "gcr.io", hasSuffix(host, ".gcr.io", ".pkg.dev"):
		return []string{"gcloud", "gcr"}
	case hasSuffix(host, ".azurecr.io", ".azurecr.cn", ".azurecr.us"):
		return []string{"acr-env"}
	}
	return nil
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
