// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
)

// TestCheckWorkspaceVariable refuses what acts on the tool or unseen programs.
func TestCheckWorkspaceVariable(t *testing.T) {
	for name, credential := range map[string]bool{
		"PATH": false, "LD_PRELOAD": false, "TF_CLI_ARGS": false, "OKARA_TOKEN": false, "A B": false,
		"HTTPS_PROXY": true, "https_proxy": true, "BASH_ENV": true, "GIT_SSH_COMMAND": true, "Git_Config_Count": true, "SSL_CERT_FILE": true, "PYTHONSTARTUP": true,
	} {
		if err := sandbox.CheckWorkspaceVariable(name); err == nil {
			t.Errorf("a workspace may set %s", name)
		}
		if err := sandbox.CheckVariable(name); (err == nil) != credential {
			t.Errorf("%s in a credential: %v", name, err)
		}
	}
	for _, name := range []string{"TF_VAR_a", "VAULT_ADDR", "GITHUB_TOKEN", "AWS_REGION", "GIT", "ENVIRONMENT", "path_to"} {
		if err := sandbox.CheckWorkspaceVariable(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
