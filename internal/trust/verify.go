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
	"github.com/seed-141914ff/okara/internal/scan"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ErrUntrusted says that a version fails a check or a policy.
var ErrUntrusted = errors.New("not verified")

// Names of what a policy can demand.
const (
	RequireOpenPGP = "openpgp"
	RequireCosign  = "cosign"
	RequireScan    = "scan"
)

// Policy say what a version has to fulfil. Trusted keys come from the
// caller only, never from the artifact.
type Policy struct {
	Digest       digest.Digest       // the tag must point here; "": anywhere
	OpenPGP      []signing.PublicKey // trusted keys for SHA256SUMS
	Cosign       []*ecdsa.PublicKey  // trusted keys for cosign signatures
	Require      []string            // RequireOpenPGP, RequireCosign, RequireScan
	Block        string              // "critical", "high", "medium" or "low": findings that fail
	AllowYanked  bool
	AllowExpired bool // an OpenPGP key may have expired
	Lean         bool // check only what Require, Block and the keys ask for, and believe the index of a provider, which SHA256SUMS covers
	Deep         bool // read every blob, and recompute what the manifest claims
	Now          time.Time
}

// Check is the outcome of one check. Result is "ok", "trusted", "consistent" (it
// holds, but nothing says whom to trust), "absent" or "failed".
type Check struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"`
}

// Subject is a version of a module or provider as it is checked or signed. It need
// not have its tag yet; what vouches for it is in its repository.
type Subject struct {
	Repository *oci.Repo
	Item       addr.Item
	Name       string // of the repository below the prefix, which signatures name
	Version    addr.Version
	Manifest   oci.Manifest
	Events     []artifact.StatusEvent // of the repository, in the order in which they count
}

// Status is what the events say of the version and its manifest.
func (s Subject) Status() artifact.Status {
	return artifact.FoldStatus(s.Events, s.Version.String(), s.Manifest.Digest)
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
	x := &verifier{Subject: s, o: o}
	artifact := x.provider
	switch s.Item.Kind {
	case addr.KindModule:
		artifact = x.module
	case addr.KindTemplate:
		artifact = x.template
	}
	for _, check := range []func(context.Context) error{x.digest, artifact, x.cosign, x.scan, x.yanked} {
		if err := check(ctx); err != nil {
			return x.checks, err
		}
	}
	return x.checks, nil
}

// Fulfils checks a version that is about to be used against a policy; nil is no
// policy.
func Fulfils(ctx context.Context, s Subject, policy *Policy) error {
	if policy == nil {
		return nil
	}
	if _, err := Verify(ctx, s, *policy); err != nil {
		return fmt.Errorf("%s:%s: %w", s.Repository, s.Version.Tag(), err)
	}
	return nil
}

// Validate refuses a requirement that there is not.
func (o Policy) Validate() error {
	if err := scan.CheckLevel(o.Block); err != nil {
		return err
	}
	for _, name := range o.Require {
		if !slices.Contains([]string{RequireOpenPGP, RequireCosign, RequireScan}, name) {
			return fmt.Errorf("unknown requirement %q", name)
		}
	}
	return nil
}

func (x *verifier) add(name, result, format string, args ...any) {
	x.checks = append(x.checks, Check{name, result, fmt.Sprintf(format, args...)})
}

// fail records a failure. An error of the registry is not one of the artifact.
func (x *verifier) fail(name string, err error) error {
	if errors.Is(err, oci.ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	x.add(name, "failed", "%v", err)
	return fmt.Errorf("%s: %w: %w", name, ErrUntrusted, err)
}

func (x *verifier) digest(context.Context) error {
	if x.o.Digest != "" && x.o.Digest != x.Manifest.Digest {
		return x.fail("digest", fmt.Errorf("the tag points to %s, not to %s", x.Manifest.Digest, x.o.Digest))
	}
	x.add("digest", "ok", "%s", x.Manifest.Digest)
	return nil
}

func (x *verifier) demands(name string) bool { return slices.Contains(x.o.Require, name) }

func (x *verifier) cosign(ctx context.Context) error {
	if x.o.Lean && len(x.o.Cosign) == 0 && !x.demands(RequireCosign) {
		return nil
	}
	r := x.Repository
	signatures, err := artifact.ReadCosignSignatures(ctx, r, x.Manifest.Digest)
	if err != nil {
		return x.fail("cosign", err)
	}
	if len(signatures) == 0 {
		return x.noCosign(ctx)
	}
	var reasons []error
	for _, s := range signatures {
		if err := s.Names(x.Name, x.Manifest.Digest); err != nil {
			reasons = append(reasons, err)
			continue
		}
		for _, key := range x.o.Cosign {
			if signing.VerifyECDSA(key, s.Payload, s.Signature) == nil {
				x.add("cosign", "trusted", "")
				return nil
			}
		}
		reasons = append(reasons, signing.ErrUnknownKey)
	}
	if len(x.o.Cosign) > 0 || x.demands(RequireCosign) {
		return x.fail("cosign", errors.Join(reasons...))
	}
	x.add("cosign", "consistent", "%d signatures, no trusted key given", len(signatures))
	return nil
}

// noCosign names signatures in forms that are not checked.
func (x *verifier) noCosign(ctx context.Context) error {
	others, err := x.Repository.Referrers(ctx, x.Manifest.Descriptor, artifact.ArtifactSigstoreBundle)
	if err != nil {
		return x.fail("cosign", err)
	}
	detail := "no signature"
	if len(others) > 0 {
		detail = "sigstore bundle present, not checked"
	}
	if x.demands(RequireCosign) || len(x.o.Cosign) > 0 {
		return x.fail("cosign", errors.New(detail))
	}
	x.add("cosign", "absent", "%s", detail)
	return nil
}

func (x *verifier) scan(ctx context.Context) error {
	if x.o.Lean && x.o.Block == "" && !x.demands(RequireScan) {
		return nil
	}
	s, ok, err := artifact.NewestScan(ctx, x.Repository, x.Manifest.Descriptor)
	if err != nil {
		return x.fail("scan", err)
	}
	if !ok {
		if x.demands(RequireScan) || x.o.Block != "" {
			return x.fail("scan", errors.New("no report"))
		}
		x.add("scan", "absent", "no report")
		return nil
	}
	counts := scan.Counts{Critical: s.Critical, High: s.High, Medium: s.Medium, Low: s.Low}
	text := fmt.Sprintf("%s, by %s on %s", counts, s.Tool, s.Time.Format(time.DateOnly))
	if counts.Blocks(x.o.Block) {
		return x.fail("scan", errors.New(text))
	}
	x.add("scan", "ok", "%s", text)
	return nil
}

func (x *verifier) yanked(context.Context) error {
	s := x.Status()
	switch {
	case s.Yanked != nil && !x.o.AllowYanked:
		return x.fail("status", errors.New(strings.TrimSpace("yanked "+s.Yanked.Message)))
	case s.Yanked != nil:
		x.add("status", "ok", "yanked, which is allowed: %s", s.Yanked.Message)
	case s.Deprecated != nil:
		x.add("status", "ok", "deprecated: %s", s.Deprecated.Message)
	default:
		x.add("status", "ok", "")
	}
	return nil
}
