// SPDX-License-Identifier: Apache-2.0

package explain

import "github.com/seed-141914ff/okara/operator/api/v1alpha1"

// again is the command that requests another try.
const again = "kubectl annotate {ref}{in} --overwrite " + v1alpha1.AnnotationRequest + "=\"$(date)\"   # retry now"

// reasonRequested is the reason of an Instance that waits for its first approval.
const reasonRequested = "Requested"

// needsDecision reports whether a reason waits for a person's decision.
func needsDecision(reason string) bool {
	return reason == v1alpha1.ReasonHeld || reason == v1alpha1.ReasonPlanned || reason == reasonRequested
}

// helpOf returns what helps against a reason; nil: waiting.
func helpOf(reason string) []string {
	switch reason {
	case v1alpha1.ReasonFailed, "Retry":
		return []string{"the message says what failed; fix that, and", again}
	case v1alpha1.ReasonRateLimited:
		return []string{"wait, or give the object its own credential: spec.auth.secretRef"}
	case v1alpha1.ReasonInvalid, v1alpha1.ReasonSchemaInvalid:
		return []string{"the message names the field", "kubectl edit {ref}{in}"}
	case v1alpha1.ReasonAddressNotAllowed:
		return []string{"an administrator:", "kubectl annotate namespace {namespace} " + v1alpha1.AnnotationAddresses + "='module:net/**'"}
	case v1alpha1.ReasonAddressTaken, v1alpha1.ReasonNameTaken:
		return []string{"the message names the other object, or the name that is already used: rename one of the two, or delete the other"}
	case v1alpha1.ReasonSecretNotAllowed:
		return []string{"the owner of the Secret has to annotate it as the message says:", "kubectl annotate secret NAME{in} --overwrite " + v1alpha1.AnnotationUse + "=WHAT"}
	case v1alpha1.ReasonSecretMissing:
		return []string{"kubectl get secret{in}"}
	case v1alpha1.ReasonNamespaceNotAllowed:
		return []string{"an administrator:", "kubectl label namespace {namespace} " + v1alpha1.LabelTenant + "="}
	case v1alpha1.ReasonSourceNotAllowed:
		return []string{"use a public address, or ask an administrator for --allow-origin"}
	case v1alpha1.ReasonScannerMissing:
		return []string{"an administrator starts the operator with --scanner; or remove spec.scan"}
	case v1alpha1.ReasonIssuerUnknown:
		return []string{"an administrator adds it to okara serve, and as --issuer of the operator"}
	case v1alpha1.ReasonTooManyRules:
		return []string{"kubectl get okrule -A --sort-by=.metadata.creationTimestamp"}
	case v1alpha1.ReasonModuleMissing, v1alpha1.ReasonVersionMissing, v1alpha1.ReasonTargetMissing:
		return []string{"publish what is missing, or change the constraint:", "okara list   # what is published", "kubectl edit {ref}{in}"}
	}
	return helpOfRuns(reason)
}

// helpOfRuns returns the texts and commands that help against the reasons of runs.
func helpOfRuns(reason string) []string {
	switch reason {
	case v1alpha1.ReasonSuspended:
		return []string{"set spec.suspend to false, or spec.runOptions.suspend of an object of a kind"}
	case v1alpha1.ReasonDrift, v1alpha1.ReasonDigestMismatch:
		return []string{"a tag was moved: okara depot status shows which; move it back, or publish another version", again}
	case v1alpha1.ReasonHeld, v1alpha1.ReasonPlanned, reasonRequested:
		return []string{"it has to be approved or rejected"}
	case v1alpha1.ReasonEntriesFailed:
		return []string{"each entry shows what it is waiting for:"}
	case v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonRefused, v1alpha1.ReasonRejected:
		return []string{"the request was refused, and the message says why: revert the change, or create another object"}
	case v1alpha1.ReasonNotVerified:
		return []string{"sign the version with a key of module.verify.keys: okara sign"}
	case v1alpha1.ReasonModuleTooLarge:
		return []string{"exclude files with .terraformignore, and publish another version"}
	case v1alpha1.ReasonSchemaNarrowed, v1alpha1.ReasonObjectsExist:
		return []string{"kubectl get {name} -A   # its objects"}
	case v1alpha1.ReasonExecutorMissing:
		return []string{"install the controller of Flux that the message names", "kubectl get crd | grep toolkit.fluxcd.io"}
	case v1alpha1.ReasonUpgradeStopped:
		return []string{"fix the object that the message names, or revert the change of the definition"}
	case v1alpha1.ReasonDestroyFailed:
		return []string{
			"fix the problem in the message, then", again,
			"or abandon it, which leaves its resources to you:", "kubectl annotate {ref}{in} " + v1alpha1.AnnotationAbandon + "={name}",
		}
	case v1alpha1.ReasonStateExists, v1alpha1.ReasonStateNotOwned:
		return []string{"an administrator, if this object is to own the state:", "kubectl annotate {ref}{in} " + v1alpha1.AnnotationAdopt + "=true"}
	case v1alpha1.ReasonOutputsConflict:
		return []string{"rename the Secret that the message names, or set outputs.secretName of the ModuleKind"}
	case "StateLocked":
		return []string{"okara state locks   # shows the holder", "an administrator removes it: kubectl annotate {ref}{in} " + v1alpha1.AnnotationUnlock + "=ID"}
	case "PlanGateMissing":
		return []string{"start the operator with --plan-gate-address, or set operator.planGate.secret of the chart"}
	}
	return nil
}
