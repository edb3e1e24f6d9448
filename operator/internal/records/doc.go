// SPDX-License-Identifier: Apache-2.0

// Package records keeps what the operator must know about an object even if the status is lost,
// since backups do not restore statuses. Each object has a ConfigMap in the namespace of the
// operator, which only the operator may write, and which backups restore. Its name is derived from
// kind, namespace and name, since a restored object has another UID. The record contains the
// original UID, which identifies everything that was created for the object.
package records
