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

// refusedNames are names of variables that a workspace cannot set, by the reason. Its configuration
// may set them for the programs that it starts; here they would act on the tool before it reads the
// configuration, or on programs of which nobody sees that they run.
var refusedNames = map[string][]string{
	"redirects the connections of the tool": {
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS",
	},
	"changes whom the tool trusts, or exposes what it sends": {
		"SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "OPENSSL_CONF", "OPENSSL_MODULES", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
	},
	"replaces git with other programs": {"GIT_*", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER"},
	"runs code in each shell or interpreter": {
		"BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "ENV", "IFS", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "PYTHON*", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB",
		"NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "LUA_INIT*",
	},
	"changes how programs are loaded": {"DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "MALLOC_*", "GODEBUG", "GOTRACEBACK"},
}

// RequireLock is a variable of a workspace whose runs need a lock of modules.
const RequireLock = "OKARA_REQUIRE_MODULE_LOCK"

// CheckWorkspaceVariable refuses the names that [CheckVariable] refuses, and those which
// no workspace may set. Upper and lower case are the same.
func CheckWorkspaceVariable(name string) error {
	if err := CheckVariable(name); err != nil && name != RequireLock {
		return err
	}
	for why, names := range refusedNames {
		for _, refused := range names {
			prefix, all := strings.CutSuffix(refused, "*")
			if upper := strings.ToUpper(name); upper == refused || all && strings.HasPrefix(upper, prefix) {
				return fmt.Errorf("a workspace cannot set the variable %s: it %s\nhint: the administrator can set it for runs with a credential of the organization", name, why)
			}
		}
	}
	return nil
}

// OutsideVariables returns the variables for network access: proxies and certificates.
func OutsideVariables() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"}
}
