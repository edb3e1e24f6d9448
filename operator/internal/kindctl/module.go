// SPDX-License-Identifier: Apache-2.0

package kindctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
	"github.com/seed-141914ff/okara/operator/internal/kindspec"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// made caches the kind of a definition and a version, which is expensive to compute.
type made struct {
	generation int64
	found      Version
	kind       *kindspec.Kind
}

// now is what a definition resolves to; kind is nil if that failed.
type now struct {
	made
	versions []addr.Version // allowed by the definition, the highest first
	passed   *passedError   // the newest that is not taken; nil: none
}

// maxTried is how many versions are tried, of which the newest cannot run.
const maxTried = 20

// passedError says which newer version is not taken, and why. The definition is Ready.
type passedError struct {
	version string
	why     error
}

func (e *passedError) Error() string {
	return "version " + e.version + " is passed over: " + e.why.Error()
}

func (n *now) passOver(v addr.Version, why error) {
	if n.passed == nil {
		n.passed = &passedError{v.String(), why}
	}
}

// checkRuns refuses a version that tofu-controller cannot run.
func (d *definitions) checkRuns(def *v1alpha1.ModuleKind, found Version) error {
	if found.Size > fluxexec.MaxModule {
		return &verdict.Problem{Reason: v1alpha1.ReasonModuleTooLarge, Message: fmt.Sprintf("the module is %.1f MiB, but tofu-controller's runner accepts at most %d MiB: exclude files with .tfignore", float64(found.Size)/(1<<20), fluxexec.MaxModule>>20)}
	}
	if r := def.Spec.Run.Runner; r != nil && r.Image != "" {
		return nil // its tool is not known
	}
	if err := found.Module.RefusedBy(d.Tool); err != nil {
		return &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: err.Error()}
	}
	return nil
}

// allowedVersions returns the versions that a definition allows, the highest first.
func allowedVersions(ctx context.Context, modules Modules, m v1alpha1.KindModule) ([]addr.Version, error) {
	fits, err := addr.ParseConstraint(m.Version)
	if err != nil {
		return nil, &verdict.Problem{Reason: v1alpha1.ReasonInvalid, Message: "spec.module.version: " + err.Error()}
	}
	all, err := modules.Versions(ctx, m)
	if isMissing(err) {
		return nil, &verdict.Problem{Reason: v1alpha1.ReasonModuleMissing, Message: fmt.Sprintf("no version of module %s is published", nameOf(m)), Retry: true}
	}
	return slices.DeleteFunc(all, func(v addr.Version) bool { return !fits.Allows(v) }), err
}

func nameOf(m v1alpha1.KindModule) string { return m.Address + m.Repository }

func chosenFor(def *v1alpha1.ModuleKind) string {
	return strings.TrimSpace(nameOf(def.Spec.Module) + " " + def.Spec.Module.Version)
}

// keptVersion returns the version that policy Manual keeps until spec.module changes; nil: none.
func keptVersion(def *v1alpha1.ModuleKind, crd *apiextensions.CustomResourceDefinition) *addr.Version {
	text := ""
	if def.Status.Module != nil {
		text = def.Status.Module.Version
	}
	if crd != nil && crd.Annotations[annotationModule] != "" {
		if crd.Annotations[annotationModule] != chosenFor(def) {
			return nil
		}
		text = crd.Annotations[annotationVersion]
	}
	v, err := addr.ParseVersion(text)
	fits, wrong := addr.ParseConstraint(def.Spec.Module.Version)
	if err != nil || wrong != nil || !fits.Allows(v) {
		return nil
	}
	return &v
}

func (d *definitions) resolveCurrent(ctx context.Context, def *v1alpha1.ModuleKind, kept *addr.Version) (now, error) {
	m := def.Spec.Module
	if verdict.RequestOf(def) != verdict.JoinRequests(def.Status.LastHandledRequest, def.Status.LastHandledReconcileAt) {
		d.Modules.ForgetVersions(m)
	}
	versions, err := allowedVersions(ctx, d.Modules, m)
	if err != nil {
		return now{}, err
	}
	n := now{versions: versions}
	if len(versions) == 0 {
		return n, &verdict.Problem{Reason: v1alpha1.ReasonVersionMissing, Message: fmt.Sprintf("no version of module %s matches %q", nameOf(m), m.Version), Retry: true}
	}
	def.Status.UpdateAvailable = ""
	tried := versions[:min(len(versions), maxTried)]
	if kept != nil && cmp.Or(def.Spec.Upgrade.Policy, v1alpha1.UpgradeManual) == v1alpha1.UpgradeManual {
		tried = []addr.Version{*kept}
		if versions[0].Compare(*kept) > 0 {
			def.Status.UpdateAvailable = versions[0].String()
		}
	}
	var found Version
	for _, v := range tried {
		if found, err = d.Modules.Version(ctx, m, v); err != nil {
			return n, err
		}
		if had := def.Status.Module; had != nil && had.Version == found.Version && had.Digest != found.Digest {
			return n, &verdict.Problem{Reason: v1alpha1.ReasonDigestMismatch, Message: fmt.Sprintf("tag %s is now %s, but %s was resolved: refused; see okara depot status", found.Version, found.Digest, had.Digest)}
		}
		if err = d.checkRuns(def, found); err == nil {
			break
		}
		n.passOver(v, err)
	}
	if err != nil { // nothing runs: what is wrong with the newest
		return n, n.passed.why
	}
	if had, ok := d.made[def.Name]; ok && had.kind.Definition.UID == def.UID && had.generation == def.Generation && had.found.Digest == found.Digest {
		n.made = had
		return n, nil
	}
	kind, err := kindspec.New(def.DeepCopy(), found.Module)
	if err != nil {
		return n, err
	}
	n.made = made{def.Generation, found, kind}
	d.made[def.Name] = n.made
	return n, nil
}
