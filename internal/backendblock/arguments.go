// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Setting is one KEY=VALUE of -backend-config. Arguments of nested blocks are
// written with a dot: versioning.max_versions.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"-"` // for messages: the flag, or file and line
}

// arguments collects the arguments of one block; the first value wins.
type arguments struct {
	Backend
	dir        string
	primary    string // primary_repository: alone an alias of repository
	versioning struct {
		enabled *bool
		max     *int
	}
	sealedBy string            // "setting" or "block": who brought the encryption, which is never mixed
	set      map[string]string // name to where it was set
}

func newArguments(dir string) *arguments {
	return &arguments{dir: dir, set: make(map[string]string)}
}

// names lists every argument, with the block in front where it is in one.
func names() []string {
	return []string{
		"repository", "primary_repository", "replicas", "ca_file", "insecure", "plain_http",
		"compression", "strict_reads", "unsafe_locking", "lock_ttl", "lock_settle",
		"versioning.enabled", "versioning.max_versions",
		"encryption.type", "encryption.key_id", "encryption.identity",
		"retry.max_attempts", "retry.initial_backoff", "retry.max_backoff",
	}
}

// target returns where the value of an argument goes, nil for an unknown one.
func (a *arguments) target(name string) any {
	switch name {
	case "repository":
		return &a.Repository
	case "primary_repository":
		return &a.primary
	case "replicas":
		return &a.Replicas
	case "ca_file":
		return &a.CAFile
	case "insecure":
		return &a.Insecure
	case "plain_http":
		return &a.PlainHTTP
	case "compression":
		return &a.Compression
	case "strict_reads":
		return &a.StrictReads
	case "unsafe_locking":
		return &a.UnsafeLocking
	case "lock_ttl":
		return &a.LockTTL
	case "lock_settle":
		return &a.LockSettle
	case "versioning.enabled":
		return &a.versioning.enabled
	case "versioning.max_versions":
		return &a.versioning.max
	case "retry.max_attempts":
		return &a.Retry.MaxAttempts
	case "retry.initial_backoff":
		return &a.Retry.InitialBackoff
	case "retry.max_backoff":
		return &a.Retry.MaxBackoff
	}
	return a.encryption(name)
}

// encryption returns the targets of the block that was begun last.
func (a *arguments) encryption(name string) any {
	if !strings.HasPrefix(name, "encryption.") {
		return nil
	}
	if len(a.Encryption) == 0 {
		a.Encryption = append(a.Encryption, Encryption{})
	}
	e := &a.Encryption[len(a.Encryption)-1]
	switch name {
	case "encryption.type":
		return &e.Type
	case "encryption.key_id":
		return &e.KeyID
	case "encryption.identity":
		return &e.Identity
	}
	return nil
}

// body reads the block itself.
func (a *arguments) body(body hcl.Body) error {
	content, diags := body.Content(schema(""))
	if err := oracleArguments(content.Attributes); err != nil {
		return err
	}
	if err := diagnosticsError(diags); err != nil {
		return err
	}
	if err := a.attributes("", content.Attributes); err != nil {
		return err
	}
	seen := make(map[string]bool)
	fromFlags := a.sealedBy != ""
	for _, b := range content.Blocks {
		switch {
		case b.Type == "encryption" && fromFlags:
			continue
		case b.Type == "encryption":
			a.beginEncryption()
		case seen[b.Type]:
			return at(b.DefRange, fmt.Errorf("a second %s block", b.Type))
		}
		seen[b.Type] = true
		inner, diags := b.Body.Content(schema(b.Type + "."))
		if err := diagnosticsError(diags); err != nil {
			return err
		}
		if err := a.attributes(b.Type+".", inner.Attributes); err != nil {
			return err
		}
	}
	return nil
}

// schema is that of the block itself, or of one of its blocks.
func schema(prefix string) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, n := range names() {
		if rest, ok := strings.CutPrefix(n, prefix); ok && !strings.Contains(rest, ".") {
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: rest})
		}
	}
	if prefix == "" {
		for _, n := range oracleNames() {
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: n})
		}
		s.Blocks = []hcl.BlockHeaderSchema{{Type: "versioning"}, {Type: "encryption"}, {Type: "retry"}}
	}
	return s
}

// beginEncryption makes room for one more block's arguments.
func (a *arguments) beginEncryption() {
	a.Encryption = append(a.Encryption, Encryption{})
	a.sealedBy = "block"
	for _, n := range names() {
		if strings.HasPrefix(n, "encryption.") {
			delete(a.set, n)
		}
	}
}

func (a *arguments) attributes(prefix string, attrs hcl.Attributes) error {
	sorted := make([]*hcl.Attribute, 0, len(attrs))
	for _, attr := range attrs {
		sorted = append(sorted, attr)
	}
	slices.SortFunc(sorted, func(x, y *hcl.Attribute) int { return x.Range.Start.Byte - y.Range.Start.Byte })
	for _, attr := range sorted {
		if len(attr.Expr.Variables()) > 0 {
			return at(attr.Range, fmt.Errorf("argument %q refers to a variable or a local value, which okara cannot evaluate\nhint: write the value, or leave the argument out and set %s",
				attr.Name, environmentName(prefix+attr.Name)))
		}
		v, diags := attr.Expr.Value(nil)
		if err := diagnosticsError(diags); err != nil {
			return err
		}
		if err := a.assign(prefix+attr.Name, v, attr.Range.String()); err != nil {
			return at(attr.NameRange, err)
		}
	}
	return nil
}

// oracleNames are arguments that only Oracle's backend of the same name has.
func oracleNames() []string {
	return []string{"bucket", "namespace", "key", "tenancy_ocid", "user_ocid", "workspace_key_prefix"}
}

func oracleArguments(attrs hcl.Attributes) error {
	for _, n := range oracleNames() {
		if attr := attrs[n]; attr != nil {
			return at(attr.NameRange, fmt.Errorf("argument %q belongs to Oracle Cloud's backend, which Terraform 1.12 and later call \"oci\" too; okara's keeps state in an OCI registry\nhint: for Oracle Object Storage run terraform without okara; for a registry write repository = \"HOST/PATH\" instead", n))
		}
	}
	return nil
}

// setting is a value from a flag or an earlier init.
func (a *arguments) setting(s Setting) error {
	if strings.HasPrefix(s.Name, "encryption.") {
		if a.sealedBy == "block" {
			return nil
		}
		a.sealedBy = "setting"
	}
	if err := a.assign(s.Name, cty.StringVal(s.Value), s.Source); err != nil {
		return fmt.Errorf("%s: %w", s.Source, err)
	}
	return nil
}

// environment reads TF_BACKEND_OCI_<NAME> for what nothing else has set.
func (a *arguments) environment(getenv func(string) string) error {
	sealed := a.sealedBy != ""
	for _, n := range names() {
		name := environmentName(n)
		v := getenv(name)
		if v == "" || sealed && strings.HasPrefix(n, "encryption.") {
			continue
		}
		// A block that uses the alias wins over the environment's name.
		if n == "repository" && a.primary != "" {
			continue
		}
		if err := a.assign(n, cty.StringVal(v), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func environmentName(argument string) string {
	return "TF_BACKEND_OCI_" + strings.ToUpper(strings.ReplaceAll(argument, ".", "_"))
}

// assign sets one argument that has no value yet.
func (a *arguments) assign(name string, v cty.Value, source string) error {
	target := a.target(name)
	if target == nil {
		return unknownArgument(name)
	}
	if _, done := a.set[name]; done || v.IsNull() {
		return nil
	}
	if err := decode(v, target); err != nil {
		return fmt.Errorf("argument %q: %w", name, err)
	}
	a.set[name] = source
	return nil
}

func unknownArgument(name string) error {
	return fmt.Errorf("backend \"oci\" has no argument %q\nhint: its arguments are %s", name, strings.Join(names(), ", "))
}

// decode converts a value to what target points to.
func decode(v cty.Value, target any) error {
	switch t := target.(type) {
	case *[]string:
		return decodeList(v, t)
	case *time.Duration:
		var s string
		if err := decode(v, &s); err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration such as \"30s\" or \"5m\"", s)
		}
		*t = d
		return nil
	case **bool:
		*t = new(bool)
		return decode(v, *t)
	case **int:
		*t = new(int)
		return decode(v, *t)
	}
	want, err := gocty.ImpliedType(target)
	if err != nil {
		return err
	}
	if v, err = convert.Convert(v, want); err != nil {
		return err
	}
	return gocty.FromCtyValue(v, target)
}

// decodeList reads a list, or the comma-separated form of flags and variables.
func decodeList(v cty.Value, t *[]string) error {
	if v.Type() == cty.String {
		for s := range strings.SplitSeq(v.AsString(), ",") {
			if s = strings.TrimSpace(s); s != "" {
				*t = append(*t, s)
			}
		}
		return nil
	}
	v, err := convert.Convert(v, cty.List(cty.String))
	if err != nil {
		return err
	}
	return gocty.FromCtyValue(v, t)
}
