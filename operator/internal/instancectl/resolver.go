// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

const (
	// maxInputs bounds the schema of a module in a status, in bytes.
	maxInputs = 32 << 10
	// maxVersions bounds how many versions a status lists.
	maxVersions = 20
	// resolveEvery is how often a Template is compared with the registry.
	resolveEvery = time.Minute
	// pendingEvery is how often a Template is checked while its chart is being fetched.
	pendingEvery = 2 * time.Second
)

// Modules is the access to modules in the registry.
type Modules interface {
	// Resolve returns the version of a module that a template refers to now, and its
	// inputs and outputs.
	Resolve(ctx context.Context, ref template.ModuleRef) (template.Source, template.Module, error)
	// Versions returns those that a template accepts, the highest first, at most n.
	Versions(ctx context.Context, ref template.ModuleRef, n int) ([]template.Source, error)
}

// Charts is the access to charts by Flux.
type Charts interface {
	// Resolve returns the chart that a Template refers to now, [ErrPending] if unknown yet.
	Resolve(ctx context.Context, o *v1alpha1.Template) (template.Source, error)
}

// ErrPending says that a chart is still being fetched.
var ErrPending = errors.New("pending")

// resolver writes to the statuses of Templates which version they refer to.
type resolver struct {
	client.Client
	Options
	events events.EventRecorder
}

func (r *resolver) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("templates").
		For(&v1alpha1.Template{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// Reconcile resolves one Template.
func (r *resolver) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != r.Namespace {
		return reconcile.Result{}, nil
	}
	var o v1alpha1.Template
	if err := r.Get(ctx, req.NamespacedName, &o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	next := o.DeepCopy()
	wrong := r.resolve(ctx, next)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	again := reconcile.Result{RequeueAfter: resolveEvery}
	if errors.Is(wrong, ErrPending) {
		again.RequeueAfter = pendingEvery
	}
	next.Status.ObservedGeneration = o.Generation
	templateVerdict(wrong, next.Status.Version).Say(r.events, &o, &next.Status.Conditions)
	if equality.Semantic.DeepEqual(o.Status, next.Status) {
		return again, nil
	}
	err := r.Status().Patch(ctx, next, client.MergeFrom(&o))
	return again, client.IgnoreNotFound(err)
}

// invalid is an error that lasts until a user changes the Template or the module.
type invalid struct{ error }

// resolve fills a status; the error says what is wrong with the Template.
func (r *resolver) resolve(ctx context.Context, o *v1alpha1.Template) error {
	t, err := readTemplate(o, r.knownConfig())
	if err != nil {
		return invalid{err}
	}
	if o.Spec.Chart != nil {
		return r.resolveChart(ctx, o, t)
	}
	o.Status.Source = t.Module.Address
	source, module, err := r.Modules.Resolve(ctx, t.Module)
	if err != nil {
		return err
	}
	if len(module.Inputs) > maxInputs {
		return invalid{fmt.Errorf("the schema of the inputs of module %s %s has %d bytes, at most %d are allowed", source.Module, source.Version, len(module.Inputs), maxInputs)}
	}
	if _, err := schemaOf(t, module.Inputs, module.Outputs); err != nil {
		return invalid{err}
	}
	versions, err := r.Modules.Versions(ctx, t.Module, maxVersions)
	if err != nil {
		return err
	}
	s := &o.Status
	s.Version = source.Version
	s.Digest = source.Digest
	s.Versions = nil
	s.Inputs = &apiextensions.JSON{Raw: module.Inputs}
	s.Outputs = module.Outputs
	current := false
	for _, v := range append([]template.Source{}, versions...) {
		current = current || v.Version == source.Version
		s.Versions = append(s.Versions, versionOf(v))
	}
	if !current {
		s.Versions = append(s.Versions, versionOf(source))
	}
	return r.digest(o, t)
}

// digest writes the digest by which instances refer to a template.
func (r *resolver) digest(o *v1alpha1.Template, t *template.Template) (err error) {
	o.Status.Template, err = t.WithDefaults(r.Defaults).Digest()
	return err
}

func versionOf(s template.Source) v1alpha1.TemplateVersion {
	return v1alpha1.TemplateVersion{Version: s.Version, Digest: s.Digest, Archive: s.Archive, Size: s.Size}
}

// templateVerdict is the verdict on a Template. An error of the registry leaves the status with what
// was resolved before.
func templateVerdict(wrong error, version string) verdict.Verdict {
	if wrong == nil {
		return verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "version " + version}
	}
	v := verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: wrong.Error()}
	_, stays := errors.AsType[invalid](wrong)
	switch {
	case stays:
		v.State = verdict.Stalled
		v.Reason = v1alpha1.ReasonInvalid
	case errors.Is(wrong, ErrPending):
		v = verdict.Verdict{Reason: v1alpha1.ReasonRunning, Message: wrong.Error()}
	case isMissing(wrong):
		v.Reason = v1alpha1.ReasonExecutorMissing
	case errors.Is(wrong, oci.ErrNotFound):
		v.Reason = v1alpha1.ReasonModuleMissing
	}
	return v
}

// ChartSource returns the location of a chart, without a version.
func ChartSource(c *v1alpha1.Chart) template.Source {
	var s template.Source
	switch {
	case c.OCI != nil:
		s.Chart = c.OCI.URL
	case c.Helm != nil:
		s.Chart = c.Helm.URL
		s.Path = c.Helm.Name
	case c.Git != nil:
		s.Chart = c.Git.URL
		s.Path = c.Git.Path
	}
	if c.SecretRef != nil {
		s.Secret = c.SecretRef.Name
	}
	return s
}

// resolveChart fills the status of a Template with a chart.
func (r *resolver) resolveChart(ctx context.Context, o *v1alpha1.Template, t *template.Template) error {
	s := &o.Status
	s.Source = ChartSource(o.Spec.Chart).Chart
	inputs, err := valuesSchema(t)
	if err != nil {
		return invalid{err}
	}
	if _, err := schemaOf(t, inputs, nil); err != nil {
		return invalid{err}
	}
	source, err := r.Charts.Resolve(ctx, o)
	if err != nil {
		return err
	}
	s.Version = source.Version
	s.Digest = source.Digest
	s.Versions = []v1alpha1.TemplateVersion{versionOf(source)}
	s.Inputs = &apiextensions.JSON{Raw: inputs}
	s.Outputs = nil
	return r.digest(o, t)
}

// isMissing reports whether the controller of a kind is not installed.
func isMissing(err error) bool {
	_, missing := errors.AsType[*fluxobj.MissingError](err)
	return missing
}

// valuesSchema is the schema of a chart's values, made from the template alone: the chart
// is not read. A parameter with a list of values has any type, one with a bound is a
// number; else it has the type of its default, or is a string if it has none.
func valuesSchema(t *template.Template) (json.RawMessage, error) {
	properties := map[string]any{}
	var inputs map[string]any
	if len(t.Inputs) > 0 {
		if err := json.Unmarshal(t.Inputs, &inputs); err != nil {
			return nil, err
		}
	}
	for name := range inputs {
		properties[name] = map[string]any{}
	}
	for i := range t.Parameters {
		property := map[string]any{}
		if kind := typeOf(&t.Parameters[i]); kind != "" {
			property["type"] = kind
		}
		properties[t.Parameters[i].Name] = property
	}
	return json.Marshal(map[string]any{"properties": properties})
}

// typeOf is the type of a parameter in JSON Schema; "": any type.
func typeOf(p *template.Parameter) string {
	switch {
	case p.Enum != nil:
		return ""
	case p.Minimum != nil || p.Maximum != nil:
		return "number"
	case p.Default == nil:
		return "string"
	}
	switch p.Default[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return ""
	}
	return "number"
}
