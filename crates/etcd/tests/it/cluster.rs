//! Clusters of three, whose members are killed and cut off.
