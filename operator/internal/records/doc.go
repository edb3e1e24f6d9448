// SPDX-License-Identifier: Apache-2.0

// Package records keeps what the operator must know of an object though its status is
// lost: backups restore no statuses. Each object has a ConfigMap in the namespace of the
// operator, which only the operator may write, and which backups restore. It is named by
// kind, namespace and name, since a restored object has another UID; the UID by which all
// that was made for the object is known is in it.
package records
