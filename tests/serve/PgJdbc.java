import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;

/** What programs do with PostgreSQL's driver for Java; prints what they find. */
public class PgJdbc {
    interface Work { void run() throws Exception; }

    static void show(String name, ResultSet rows, String... columns) throws SQLException {
        StringBuilder found = new StringBuilder(name + ":");
        while (rows.next()) {
            found.append(" ");
            for (String column : columns) found.append(rows.getString(column)).append("|");
        }
        System.out.println(found);
    }

    static void refused(String name, Work work) throws Exception {
        try {
            work.run();
            System.out.println(name + " was not refused");
        } catch (SQLException error) {
            System.out.println(name + ": " + error.getSQLState());
        }
    }

    public static void main(String[] given) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + given[0] + "/shop";
        try (Connection c = DriverManager.getConnection(url, "ann", "")) {
            DatabaseMetaData m = c.getMetaData();
            String[] kinds = {"TABLE", "VIEW", "MATERIALIZED VIEW"};
            show("schemas", m.getSchemas(), "TABLE_SCHEM");
            show("tables", m.getTables(null, null, "%", kinds), "TABLE_NAME", "TABLE_TYPE");
            show("columns", m.getColumns(null, "main", "orders", "%"), "COLUMN_NAME", "TYPE_NAME");
            show("key", m.getPrimaryKeys(null, "main", "orders"), "COLUMN_NAME");
            show("keys", m.getImportedKeys(null, "main", "orders"), "PKTABLE_NAME", "FKCOLUMN_NAME");
            show("indexes", m.getIndexInfo(null, "main", "orders", false, false), "INDEX_NAME");

            PreparedStatement look = c.prepareStatement("SELECT note FROM customers WHERE id = ?");
            for (int i = 0; i < 12; i++) { // by the server's statements from the sixth time on
                look.setInt(1, i);
                ResultSet row = look.executeQuery();
                row.next();
                if (i == 11) System.out.println("found: " + row.getString(1));
            }
            PreparedStatement rows = c.prepareStatement("INSERT INTO orders VALUES (?, ?, ?, ?)");
            c.setAutoCommit(false);
            for (int i = 0; i < 100; i++) {
                rows.setInt(1, 50_000 + i);
                rows.setInt(2, i);
                rows.setBigDecimal(3, new BigDecimal("2.50"));
                rows.setTimestamp(4, new Timestamp(0));
                rows.addBatch();
            }
            System.out.println("batch: " + rows.executeBatch().length);
            c.rollback();
            Statement all = c.createStatement();
            all.setFetchSize(10);
            ResultSet fetched = all.executeQuery("SELECT id FROM orders");
            int count = 0;
            while (fetched.next()) count++;
            System.out.println("fetched: " + count);
            c.commit();
            refused("again", () -> all.executeUpdate("INSERT INTO customers VALUES (1, 'x', 'y')"));
            c.rollback();
            c.setAutoCommit(true);
            Statement slow = c.createStatement();
            slow.setQueryTimeout(1);
            refused("slow", () -> slow.executeQuery(
                "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.range * b.range = 3"));
            c.setReadOnly(true);
            c.setAutoCommit(false);
            refused("read only", () -> all.executeUpdate("DELETE FROM orders"));
        }
    }
}
