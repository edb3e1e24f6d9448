// SPDX-License-Identifier: Apache-2.0

package instancectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	"github.com/seed-141914ff/okara/instances/templatesource"
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
	// UseCredentials is the value of the annotation okara.dev/use on Secrets of the operator
	// that templates may name, and OfOperator says in messages where they are.
	UseCredentials, OfOperator = "instances", " of the operator's namespace"
)

// Modules is the access to modules in the registry.
type Modules interface {
	// Resolve returns a template's present version, inputs and outputs.
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
	live   client.Reader // not cached, for Secrets
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
	if _, older := errors.AsType[behind](wrong); wrong == nil || older {
		wrong = cmp.Or(r.checkCredentials(ctx, next), r.checkInstalled(next), wrong)
	}
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

// behind is why a Template stays at an older version of its module. The Template is Ready.
type behind struct{ error }

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
	source, module, wrong := r.resolveModule(ctx, t, t.Module)
	_, misfits := errors.AsType[invalid](wrong)
	if wrong != nil && !misfits {
		return wrong
	}
	versions, err := r.Modules.Versions(ctx, t.Module, maxVersions)
	if err != nil {
		return err
	}
	if misfits {
		newest := source.Version
		versions = slices.DeleteFunc(versions, func(v template.Source) bool { return v.Version == newest })
		source, module, wrong = r.resolveOlder(ctx, t, versions, newest, wrong)
		fits := slices.IndexFunc(versions, func(v template.Source) bool { return v.Version == source.Version })
		versions = versions[max(fits, 0):]
	}
	if _, is := errors.AsType[behind](wrong); wrong != nil && !is {
		return wrong
	}
	if !slices.ContainsFunc(versions, func(v template.Source) bool { return v.Version == source.Version }) {
		versions = append(versions, source)
	}
	return cmp.Or(r.fillStatus(o, t, source, versions, module), wrong)
}

func (r *resolver) checkInstalled(o *v1alpha1.Template) error {
	if r.Installed == nil {
		return nil
	}
	return r.Installed(o)
}

// checkCredentials checks that the Secrets which a Template names exist and allow it.
func (r *resolver) checkCredentials(ctx context.Context, o *v1alpha1.Template) error {
	for _, name := range o.Spec.Credentials {
		if _, err := verdict.ReadSecret(ctx, r.live, client.ObjectKey{Namespace: r.Operator, Name: name}, OfOperator, UseCredentials); err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
	}
	return nil
}

// resolveModule returns the version of a module that a reference names, if it fits a template.
func (r *resolver) resolveModule(ctx context.Context, t *template.Template, ref template.ModuleRef) (template.Source, template.Module, error) {
	source, module, err := r.Modules.Resolve(ctx, ref)
	if _, is := errors.AsType[*templatesource.MisfitError](err); is {
		return source, module, invalid{err}
	}
	if err != nil {
		return source, module, err
	}
	if len(module.Inputs) > maxInputs {
		return source, module, invalid{fmt.Errorf("the schema of the inputs of module %s %s has %d bytes, the limit is %d", source.Module, source.Version, len(module.Inputs), maxInputs)}
	}
	_, err = schemaOf(t, module.Inputs, module.Outputs)
	if err = cmp.Or(module.RefusedBy(r.Tool), err); err != nil {
		return source, module, invalid{err}
	}
	return source, module, nil
}

// resolveOlder returns the highest of older versions that fits a template, with an error that
// says why it is [behind]; none fits: the error is why the newest does not.
func (r *resolver) resolveOlder(ctx context.Context, t *template.Template, older []template.Source, newest string, why error) (template.Source, template.Module, error) {
	for _, v := range older {
		ref := t.Module
		ref.Version = v.Version
		source, module, err := r.resolveModule(ctx, t, ref)
		if err == nil {
			return source, module, behind{fmt.Errorf("it stays at version %s of the module, since version %s is not compatible with the template: %w", source.Version, newest, why)}
		}
		if _, is := errors.AsType[invalid](err); !is && !errors.Is(err, oci.ErrNotFound) {
			return source, module, err
		}
	}
	return template.Source{}, template.Module{}, why
}

// fillStatus writes what a Template refers to, and the digest by which instances refer to it.
func (r *resolver) fillStatus(o *v1alpha1.Template, t *template.Template, source template.Source, versions []template.Source, m template.Module) (err error) {
	s := &o.Status
	s.Version = source.Version
	s.Digest = source.Digest
	s.Versions = nil
	for _, v := range versions {
		s.Versions = append(s.Versions, v1alpha1.TemplateVersion{Version: v.Version, Digest: v.Digest, Archive: v.Archive, Size: v.Size})
	}
	s.Inputs = &apiextensions.JSON{Raw: m.Inputs}
	s.Outputs = m.Outputs
	s.Template, err = t.WithDefaults(r.Defaults).Digest()
	return err
}

// templateVerdict is a Template's verdict; a registry's error leaves what was resolved.
func templateVerdict(wrong error, version string) verdict.Verdict {
	if wrong == nil {
		return verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "version " + version}
	}
	v := verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonFailed, Message: wrong.Error()}
	_, older := errors.AsType[behind](wrong)
	_, stays := errors.AsType[invalid](wrong)
	_, missing := errors.AsType[*fluxobj.MissingError](wrong) // its controller is not installed
	secret, lacks := errors.AsType[*verdict.Problem](wrong)
	switch {
	case lacks:
		v.State, v.Reason = secret.Verdict().State, secret.Reason
	case older:
		v.State = verdict.Ready
		v.Reason = v1alpha1.ReasonBehind
	case stays:
		v.State = verdict.Stalled
		v.Reason = v1alpha1.ReasonInvalid
	case errors.Is(wrong, ErrPending):
		v = verdict.Verdict{Reason: v1alpha1.ReasonRunning, Message: wrong.Error()}
	case missing:
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

func (r *resolver) resolveChart(ctx context.Context, o *v1alpha1.Template, t *template.Template) error {
	o.Status.Source = ChartSource(o.Spec.Chart).Chart
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
	return r.fillStatus(o, t, source, []template.Source{source}, template.Module{Inputs: inputs})
}

// valuesSchema is the schema of a chart's values, from the template alone: with a list of values
// any type, with a bound a number, else the default's, or a string.
func valuesSchema(t *template.Template) (json.RawMessage, error) {
	properties := map[string]any{}
	var inputs map[string]json.RawMessage
	if len(t.Inputs) > 0 {
		if err := json.Unmarshal(t.Inputs, &inputs); err != nil {
			return nil, err
		}
	}
	for name := range inputs {
		properties[name] = map[string]any{}
	}
	for i := range t.Parameters {
		properties[t.Parameters[i].Name] = typeOf(&t.Parameters[i])
	}
	return json.Marshal(map[string]any{"properties": properties})
}

// typeOf is the schema of a parameter, which says its type only; empty: any type.
func typeOf(p *template.Parameter) map[string]any {
	kind := "number"
	switch {
	case p.Enum != nil:
		return map[string]any{}
	case p.Minimum != nil || p.Maximum != nil:
	case p.Default == nil:
		kind = "string"
	default:
		switch p.Default[0] {
		case '"':
			kind = "string"
		case '{':
			kind = "object"
		case '[':
			kind = "array"
		case 't', 'f':
			kind = "boolean"
		case 'n':
			return map[string]any{}
		}
	}
	return map[string]any{"type": kind}
}
