// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
)

var variableRE = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// IsVariable reports whether this can be the name of a variable.
func IsVariable(name string) bool { return variableRE().MatchString(name) }

// CheckVariable refuses names that are used by the run itself, by the dynamic loader, or
// by the tool to reach its state.
func CheckVariable(name string) error {
	if !IsVariable(name) {
		return fmt.Errorf("%q is not the name of a variable", name)
	}
	own := []string{"PATH", "HOME", "TMPDIR", "LANG", "PWD", "CHECKPOINT_DISABLE", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT", "AWS_S3_ENDPOINT"}
	taken := slices.Contains(own, name)
	for _, prefix := range []string{"OKARA_", "LD_", "TF_", "AWS_ENDPOINT_URL"} {
		taken = taken || strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "TF_VAR_")
	}
	if taken {
		return fmt.Errorf("the variable %s is set by the run itself", name)
	}
	return nil
}

// OutsideVariables returns the variables for network access: proxies and certificates.
func OutsideVariables() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}
}
