// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// Entry has the fields that modules and providers of a depot file share, its defaults filled in.
type Entry struct {
	Where    string // file:line, ADDRESS[@CONSTRAINT] of a command line, or a resource; for messages
	Versions addr.Constraint
	Exact    []addr.Version // exactly these, without listing the versions of the origin; empty: those that Versions allows
	Limit    int            // number of newest versions to take of those that the constraint allows; 0: all
	Keep     int            // number of newest versions that retention keeps; 0: all
	KeepUsed bool           // and those that the newest version of a state uses
	Pin      []string       // versions that retention never removes
	Scan     ScanPolicy
	Approval ApprovalPolicy
	Auth     string // name of an auth block; "": anonymous
}

// ModuleEntry is one module block.
type ModuleEntry struct {
	Entry
	Address addr.Module
	Title   string // the address as it was written
	Source  ModuleSource
	Subdir  string
	Folder  string // that the module must have; "": any module
	Policy  string // "immutable" or "editions"
	Ignore  []string

	AllowInvalid bool // publish a configuration that clients cannot load
}

// ModuleSource is where a module's versions come from: version tags, a module registry, or OCI.
type ModuleSource struct {
	Kind      sourceKind
	Location  upstream.Location // git, github and oci
	Host      string            // registry
	Address   addr.Module       // registry; in the case in which it was written
	TagPrefix string            // git and github: only tags with this prefix; it is removed
	Releases  bool              // github: use releases instead of tags
}

// sourceKind names a kind of module source.
type sourceKind string

// The kinds of module sources.
const (
	sourceGit      sourceKind = "git"
	sourceGitHub   sourceKind = "github"
	SourceRegistry sourceKind = "registry"
	sourceOCI      sourceKind = "oci"
)

// ProviderEntry is one provider block.
type ProviderEntry struct {
	Entry
	Address       addr.Provider // with its host name
	Origin        string        // "", a registry host, https://…/ (network mirror), a directory, or oci://HOST/TEMPLATE
	Platforms     []addr.Platform
	AllowUnsigned bool
	AllowExpired  bool                // see MirrorOptions
	Trusted       []signing.PublicKey // see MirrorOptions
}

// ApprovalPolicy decides which new versions wait: if Required, those that no rule approves.
type ApprovalPolicy struct {
	Required bool
	Patch    bool          // approve a release that changes only the patch number of an existing version
	SignedBy []string      // key ids that signed SHA256SUMS
	OlderAge time.Duration // approve versions known to the depot for this long
}

// EntrySpec has the fields that modules and providers share, as a user wrote them.
type EntrySpec struct {
	Versions    string // constraint
	Limit, Keep int
	KeepUsed    bool
	Pin         []string
	Auth        string
	Scan        ScanPolicy
	Approval    ApprovalPolicy
}

// ModuleSpec is a module entry as a user wrote it, in a depot file or a resource of a cluster.
type ModuleSpec struct {
	EntrySpec
	Address, Source   string
	Subdir, TagPrefix string
	Releases          bool
	Policy            string // "" is "immutable"
	Ignore            []string
	AllowInvalid      bool
}

// ProviderSpec is a provider entry as a user wrote it.
type ProviderSpec struct {
	EntrySpec
	Address, Origin string
	Platforms       []string
	AllowUnsigned   bool
}

// fieldError is a mistake in one field of an entry. Field is a path, as platforms[0] or scan.block.
type fieldError struct {
	Field string
	Err   error
}

func (e fieldError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e fieldError) Unwrap() error { return e.Err }

// FieldErrors lists all mistakes in an entry, in the order of its fields.
type FieldErrors []fieldError

func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the mistakes for [errors.Is].
func (e FieldErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, f := range e {
		errs[i] = f
	}
	return errs
}

func (e *FieldErrors) addField(field string, err error) {
	if err != nil {
		*e = append(*e, fieldError{field, err})
	}
}

func (e FieldErrors) asError() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Entry checks the entry; the error is a [FieldErrors]. The caller must check that Auth exists.
func (s ModuleSpec) Entry(where string) (ModuleEntry, error) {
	var bad FieldErrors
	e := ModuleEntry{Title: s.Address, Subdir: s.Subdir, Policy: cmp.Or(s.Policy, "immutable"), Ignore: s.Ignore, AllowInvalid: s.AllowInvalid}
	var err error
	e.Address, err = addr.ParseModule(s.Address)
	bad.addField("address", err)
	e.Entry = s.specEntry(where, &bad)
	if e.Policy != "immutable" && e.Policy != "editions" {
		bad.addField("policy", fmt.Errorf("invalid policy %q: must be immutable or editions", e.Policy))
	}
	e.Source, err = parseModuleSource(s.Source)
	bad.addField("source", err)
	e.Source.TagPrefix = s.TagPrefix
	e.Source.Releases = s.Releases
	if s.Releases && e.Source.Kind != sourceGitHub && err == nil {
		bad.addField("releases", fmt.Errorf("releases are read from GitHub only; the source is of kind %s", e.Source.Kind))
	}
	e.Subdir = cmp.Or(e.Subdir, e.Source.Location.Subdir)
	return e, bad.asError()
}

// Entry checks the entry, as [ModuleSpec.Entry] does.
func (s ProviderSpec) Entry(where string) (ProviderEntry, error) {
	var bad FieldErrors
	e := ProviderEntry{Origin: s.Origin, AllowUnsigned: s.AllowUnsigned}
	var err error
	e.Address, err = addr.ParseProvider(s.Address)
	bad.addField("address", err)
	e.Address.Hostname = cmp.Or(e.Address.Hostname, defaultOrigin)
	e.Entry = s.specEntry(where, &bad)
	for i, p := range s.Platforms {
		t, err := addr.ParsePlatform(p)
		bad.addField(fmt.Sprintf("platforms[%d]", i), err)
		e.Platforms = append(e.Platforms, t)
	}
	return e, bad.asError()
}

// defaultOrigin is the registry of a provider address without a host name.
const defaultOrigin = "registry.opentofu.org"

// ParseKeep parses what retention keeps: the number of newest versions, "used" for the newest and those
// that states use, or both, as "20, used".
func ParseKeep(s string) (n int, used bool, err error) {
	number, word, both := strings.Cut(s, ",")
	if strings.TrimSpace(s) == "used" {
		return 1, true, nil
	}
	if n, err = strconv.Atoi(strings.TrimSpace(number)); err != nil || both && strings.TrimSpace(word) != "used" {
		return 0, false, fmt.Errorf("%q must be a number of versions, used, or both, such as 20, used", s)
	}
	return n, both, nil
}

var errCount = errors.New("limit and keep must be 0 or more versions")

func (s EntrySpec) specEntry(where string, bad *FieldErrors) Entry {
	e := Entry{Where: where, Limit: s.Limit, Keep: s.Keep, KeepUsed: s.KeepUsed, Pin: s.Pin, Auth: s.Auth, Scan: s.Scan, Approval: s.Approval}
	var err error
	e.Versions, err = addr.ParseConstraint(s.Versions)
	bad.addField("versions", err)
	switch {
	case e.Limit < 0:
		bad.addField("limit", errCount)
	case e.Keep < 0:
		bad.addField("keep", errCount)
	}
	for i, v := range e.Pin {
		_, err := addr.ParseVersion(v)
		bad.addField(fmt.Sprintf("pin[%d]", i), err)
	}
	bad.addField("scan.block", scan.CheckLevel(s.Scan.Block))
	bad.addField("scan.maxAge", checkAge(s.Scan.MaxAge))
	if s.Scan.SourceRepository != "" {
		_, err := s.Scan.sourceRepository()
		bad.addField("scan.sourceRepository", err)
	}
	bad.addField("approval.olderThan", checkAge(s.Approval.OlderAge))
	return e
}

// checkAge refuses the durations that [setBuilder.duration] refuses; 0 means not set.
func checkAge(d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return fmt.Errorf("%q is not a duration such as 30m or 72h", d)
}
