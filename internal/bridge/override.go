// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

const (
	// overrideName is read after every file but overrides that sort after it.
	overrideName = "okara_override.tf"
	// overrideMark identifies the file as okara's.
	overrideMark = "# Written by okara for the time of a run; remove it if no run is going on.\n"
	// profile is the name of the AWS profile in the files of a run.
	profile = "okara"
	// runVariable names a run's private directory, expanded by the tools.
	runVariable = "OKARA_RUN"
)

// Override returns the override file, the same bytes for the same configuration: tools compare its
// backend with that of init and plan.
func (c Config) Override() []byte {
	blocks := make([]string, 0, 1+len(c.Remote))
	if c.Declared {
		backend := alignArguments("    ", append(clientArguments(text.HCL(s3facade.StateKey(c.Backend.Repository))), argument{"use_lockfile", "true"})) // doc.go gives the reasons
		blocks = append(blocks, "terraform {\n  backend \"s3\" {\n"+backend+"  }\n}\n")
	}
	for _, r := range c.Remote {
		blocks = append(blocks, r.dataBlock())
	}
	return []byte(overrideMark + "\n" + strings.Join(blocks, "\n"))
}

// argument is an argument's name and expression.
type argument struct{ name, value string }

func alignArguments(indent string, arguments []argument) string {
	width := 0
	for _, a := range arguments {
		width = max(width, len(a.name))
	}
	var s strings.Builder
	for _, a := range arguments {
		fmt.Fprintf(&s, "%s%-*s = %s\n", indent, width, a.name, a.value)
	}
	return s.String()
}

func clientArguments(key string) []argument {
	return []argument{
		{"bucket", text.HCL(s3facade.Bucket)},
		{"key", key},
		{"region", `"us-east-1"`},
		{"profile", text.HCL(profile)},
		{"shared_config_files", `["$` + runVariable + `/config"]`},
		{"shared_credentials_files", `["$` + runVariable + `/credentials"]`},
		{"use_path_style", "true"},
		{"skip_credentials_validation", "true"},
		{"skip_requesting_account_id", "true"},
		{"skip_region_validation", "true"},
		{"max_retries", "1"},
	}
}

func (r RemoteState) dataBlock() string {
	config := alignArguments("    ", append(clientArguments(exprTemplate(r.Repository, s3facade.RemoteKeySuffix)),
		argument{"workspace_key_prefix", `"` + s3facade.RemotePrefix + `${` + r.Repository + `}"`}))
	return "data \"terraform_remote_state\" " + text.HCL(r.Name) + " {\n  backend = \"s3\"\n  config = {\n" + config + "  }\n}\n"
}

// exprTemplate returns the template of an expression followed by a literal.
func exprTemplate(expr, suffix string) string { return `"${` + expr + `}` + suffix + `"` }
