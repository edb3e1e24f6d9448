// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/statebackend/s3facade"
)

const (
	// overrideName is read by both tools after every other file that does not
	// end in _override or sorts after it.
	overrideName = "okara_override.tf"
	// overrideMark is how the file is recognised as ours.
	overrideMark = "# Written by okara for the time of a run; remove it if no run is going on.\n"
	// profile is the name of the AWS profile in the files of a run.
	profile = "okara"
	// runVariable names the private directory of a run. The tools expand it in
	// the two file arguments themselves.
	runVariable = "OKARA_RUN"
)

// Override returns the text of the override file: the same bytes for the same
// configuration, since the tools compare its backend with the one of the last
// init and of a saved plan.
func (c Config) Override() []byte {
	f := hclwrite.NewEmptyFile()
	if c.Declared {
		b := f.Body().AppendNewBlock("terraform", nil).Body().AppendNewBlock("backend", []string{"s3"}).Body()
		for _, p := range backendArguments(quote(s3facade.StateKey(c.Backend.Repository))) {
			b.SetAttributeRaw(p.name, tokens(p.value))
		}
	}
	for i, r := range c.Remote {
		if c.Declared || i > 0 {
			f.Body().AppendNewline()
		}
		d := f.Body().AppendNewBlock("data", []string{"terraform_remote_state", r.Name}).Body()
		d.SetAttributeValue("backend", cty.StringVal("s3"))
		d.SetAttributeRaw("config", tokens(r.object()))
	}
	return hclwrite.Format(append([]byte(overrideMark+"\n"), f.Bytes()...))
}

// argument is a name and an expression.
type argument struct{ name, value string }

// backendArguments are those of the backend block; doc.go says why each is there.
func backendArguments(key string) []argument {
	return append(clientArguments(key), argument{"use_lockfile", "true"})
}

func clientArguments(key string) []argument {
	return []argument{
		{"bucket", quote(s3facade.Bucket)},
		{"key", key},
		{"region", `"us-east-1"`},
		{"profile", quote(profile)},
		{"shared_config_files", `["$` + runVariable + `/config"]`},
		{"shared_credentials_files", `["$` + runVariable + `/credentials"]`},
		{"use_path_style", "true"},
		{"skip_credentials_validation", "true"},
		{"skip_requesting_account_id", "true"},
		{"skip_region_validation", "true"},
		{"max_retries", "1"},
	}
}

// object is the config argument of a remote state.
func (r RemoteState) object() string {
	var s strings.Builder
	s.WriteString("{\n")
	arguments := append(clientArguments(template(r.Repository, s3facade.RemoteKeySuffix)),
		argument{"workspace_key_prefix", `"` + s3facade.RemotePrefix + `${` + r.Repository + `}"`})
	for _, a := range arguments {
		s.WriteString(a.name + " = " + a.value + "\n")
	}
	return s.String() + "}"
}

// template is an expression followed by a literal.
func template(expr, suffix string) string { return `"${` + expr + `}` + suffix + `"` }

// quote writes a string as an HCL expression.
func quote(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) }

// tokens makes hclwrite print an expression as it is.
func tokens(expr string) hclwrite.Tokens {
	return hclwrite.Tokens{{Type: hclsyntax.TokenIdent, Bytes: []byte(expr)}}
}
