// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyless"
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// ErrUntrusted means that a version fails a check or a policy.
var ErrUntrusted = errors.New("not verified")

// Requirements of a policy.
const (
	RequireOpenPGP = "openpgp"
	RequireCosign  = "cosign"
	RequireScan    = "scan"
)

// Policy defines what a version has to fulfil. Trusted keys come only from the
// caller, never from the artifact.
type Policy struct {
	Digest       digest.Digest       // the tag must have this digest; "": any
	OpenPGP      []signing.PublicKey // trusted keys for SHA256SUMS
	Cosign       []*ecdsa.PublicKey  // trusted keys for cosign signatures
	Keyless      *keyless.Trust      // trusted certificates for them; nil: none
	Require      []string            // RequireOpenPGP, RequireCosign, RequireScan
	Block        string              // "critical", "high", "medium" or "low": findings of this level and above fail
	AllowYanked  bool
	AllowExpired bool // an OpenPGP key may have expired
	Lean         bool // check only what Require, Block and the keys ask for, and trust the index of a provider, which SHA256SUMS covers
	Deep         bool // read every blob, and recompute the hashes and sizes in the manifest
	Now          time.Time
}

// Check is the result of one check. Result is "ok", "trusted", "consistent"
// (valid, but the key is not known to be trusted), "absent" or "failed".
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"`
}

// Subject is a version of a module or provider to be checked or signed. It need
// not have its tag yet; its signatures and reports are in its repository.
type Subject struct {
	Repository     *oci.Repo
	Item           addr.Item
	Name           string // of the repository below the prefix, as in signatures
	NameFromServer bool   // Name was received from a server, so the signed manifest must also name the item
	Version        addr.Version
	Manifest       oci.Manifest
	Events         []evidence.StatusEvent // of the repository, in chronological order
	Now            time.Time              // by the clock of the registry, for what is recorded
	Referrers      *evidence.Referrers    // of the manifest, if the caller also needs the list; nil: listed here
}

func (s Subject) referrers() *evidence.Referrers {
	if s.Referrers != nil {
		return s.Referrers
	}
	return &evidence.Referrers{Repo: s.Repository, Subject: s.Manifest.Descriptor}
}

// Status returns the status of the version and its manifest according to the events.
func (s Subject) Status() evidence.Status {
	return evidence.FoldStatus(s.Events, s.Version.String(), s.Manifest.Digest)
}

// verifier runs the checks of one version.
type verifier struct {
	Subject
	o      Policy
	checks []Check
}

// Verify checks a version and stops at the first failure, whose error wraps
// ErrUntrusted. The checks so far are returned in any case.
func Verify(ctx context.Context, s Subject, o Policy) ([]Check, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s.Referrers = s.referrers()
	x := &verifier{Subject: s, o: o}
	artifact := x.verifyProvider
	switch s.Item.Kind {
	case addr.KindModule:
		artifact = x.verifyModule
	case addr.KindTemplate:
		artifact = x.verifyTemplate
	}
	for _, check := range []func(context.Context) error{x.digest, artifact, x.checkCosign, x.scan, x.checkYanked} {
		if err := check(ctx); err != nil {
			return x.checks, err
		}
	}
	return x.checks, nil
}

// Fulfils checks a version that is about to be used against a policy; nil means no policy.
func Fulfils(ctx context.Context, s Subject, policy *Policy) error {
	if policy == nil {
		return nil
	}
	if _, err := Verify(ctx, s, *policy); err != nil {
		return fmt.Errorf("%s:%s: %w", s.Repository, s.Version.Tag(), err)
	}
	return nil
}

// Validate refuses unknown requirements.
func (o Policy) Validate() error {
	for _, name := range o.Require {
		if !slices.Contains([]string{RequireOpenPGP, RequireCosign, RequireScan}, name) {
			return fmt.Errorf("requirement %q is not openpgp, cosign or scan", name)
		}
	}
	return scan.CheckLevel(o.Block)
}

func (x *verifier) addCheck(name, result, format string, args ...any) {
	x.checks = append(x.checks, Check{name, result, fmt.Sprintf(format, args...)})
}

// failCheck records a failure. An error of the registry is returned as such, because
// it is not a failure of the artifact.
func (x *verifier) failCheck(name string, err error) error {
	if errors.Is(err, oci.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	x.addCheck(name, "failed", "%v", err)
	return fmt.Errorf("%s: %w: %w", name, ErrUntrusted, err)
}

func (x *verifier) digest(context.Context) error {
	if x.o.Digest != "" && x.o.Digest != x.Manifest.Digest {
		return x.failCheck("digest", fmt.Errorf("the tag points to %s, not to %s", x.Manifest.Digest, x.o.Digest))
	}
	x.addCheck("digest", "ok", "%s", x.Manifest.Digest)
	return nil
}

func (x *verifier) isRequired(name string) bool { return slices.Contains(x.o.Require, name) }

func (x *verifier) checkCosign(ctx context.Context) error {
	if x.o.Lean && !x.o.TrustsSigners() && !x.isRequired(RequireCosign) {
		return nil
	}
	var reasons []error
	unchecked := 0 // of this version, by a key that nobody trusts here
	for s, err := range x.Referrers.Signatures(ctx) {
		if err != nil {
			return x.failCheck("cosign", err)
		}
		_, by, err := signedBy(x.Subject, s, x.o)
		if err == nil {
			x.addCheck("cosign", "trusted", "%s", by)
			return nil
		}
		reasons = append(reasons, err)
		if errors.Is(err, signing.ErrUnknownKey) || errors.Is(err, errKeyless) {
			unchecked++
		}
	}
	switch {
	case x.isRequired(RequireCosign), x.o.TrustsSigners(), unchecked < min(len(reasons), 1):
		if len(reasons) == 0 {
			reasons = []error{errors.New("no signature")}
		}
		return x.failCheck("cosign", errors.Join(reasons...))
	case len(reasons) == 0:
		x.addCheck("cosign", "absent", "no signature")
	default:
		x.addCheck("cosign", "consistent", "%s, no trusted key given", text.Plural(unchecked, "signature"))
	}
	return nil
}

// TrustsSigners reports whether keys or certificates for cosign signatures are trusted.
func (o Policy) TrustsSigners() bool { return len(o.Cosign) > 0 || o.Keyless != nil }

// signedBy returns which trusted key made a signature, or whom a trusted certificate names.
func signedBy(x Subject, s evidence.CosignSignature, o Policy) (*ecdsa.PublicKey, string, error) {
	if err := s.Names(x.Name, x.Manifest.Digest); err != nil {
		return nil, "", err
	}
	if s.Envelope != nil || x.NameFromServer {
		if err := artifact.SaysItIs(x.Manifest, x.Item, x.Version); err != nil {
			return nil, "", err
		}
	}
	if s.Certified != nil && o.Keyless != nil {
		by, err := o.Keyless.Verify(keyless.Signature{Material: s.Certified, Payload: s.Payload, Envelope: s.Envelope, Bytes: s.Signature})
		return nil, by, err
	}
	for _, key := range o.Cosign {
		if signing.VerifyECDSA(key, s.Signed(), s.Signature) == nil {
			return key, "", nil
		}
	}
	if s.Certified != nil {
		return nil, "", errKeyless
	}
	return nil, "", signing.ErrUnknownKey
}

// errKeyless is the result for a signature with a certificate, if the policy has no trust root.
var errKeyless = errors.New("a sigstore bundle with a certificate is not checked without a trust root")

func (x *verifier) scan(ctx context.Context) error {
	if x.o.Lean && x.o.Block == "" && !x.isRequired(RequireScan) {
		return nil
	}
	s, ok, err := evidence.NewestScan(ctx, x.Referrers)
	if err != nil {
		return x.failCheck("scan", err)
	}
	if !ok {
		if x.isRequired(RequireScan) || x.o.Block != "" {
			return x.failCheck("scan", errors.New("no report"))
		}
		x.addCheck("scan", "absent", "no report")
		return nil
	}
	counts := scan.Counts{Critical: s.Critical, High: s.High, Medium: s.Medium, Low: s.Low}
	text := fmt.Sprintf("%s, by %s on %s", counts, s.Tool, s.Time.Format(time.DateOnly))
	if counts.Blocks(x.o.Block) {
		return x.failCheck("scan", errors.New(text))
	}
	x.addCheck("scan", "ok", "%s", text)
	return nil
}

func (x *verifier) checkYanked(context.Context) error {
	s := x.Status()
	switch {
	case s.Yanked != nil && !x.o.AllowYanked:
		return x.failCheck("status", errors.New(strings.TrimSpace("yanked "+s.Yanked.Message)))
	case s.Yanked != nil:
		x.addCheck("status", "ok", "withdrawn, which is allowed: %s", s.Yanked.Message)
	case s.Deprecated != nil:
		x.addCheck("status", "ok", "deprecated: %s", s.Deprecated.Message)
	default:
		x.addCheck("status", "ok", "")
	}
	return nil
}
